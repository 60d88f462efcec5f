/** Takes the password out of every URL in a text. The last `@` before the host ends it, as in a password with an `@`. */
export function maskPasswords(text: string): string {
  return text.replaceAll(/([a-z][a-z0-9+.-]*:\/\/[^\s:/@"]*):[^\s"]+@(?=[^\s@"]*)/gi, '$1:***@');
}
