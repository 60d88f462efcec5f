import { createServer } from 'node:net';

/**
 * A TCP port of 127.0.0.1 that was free a moment ago.
 *
 * Somebody else may take it before the server binds it, so callers start again with another one when the bind fails,
 * and check afterwards that it is their own server that answers.
 */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      server.close(() => {
        if (address !== null && typeof address === 'object') resolve(address.port);
        else reject(new Error('the operating system gave no port'));
      });
    });
  });
}
