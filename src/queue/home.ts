/** Where the queue lives. */
export type QueueHome = { readonly redisUrl: string } | { readonly storeUrl: string };

/** The address as it may be shown: never with a user's name or password. */
export function addressOf(home: QueueHome): string {
  const text = 'redisUrl' in home ? home.redisUrl : home.storeUrl;
  if (text.startsWith('/')) return text;
  if (!URL.canParse(text)) return 'redisUrl' in home ? 'the Redis server' : 'the store';
  const { protocol, host, pathname } = new URL(text);
  return `${protocol}//${host}${pathname}`;
}
