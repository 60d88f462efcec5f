/** Under this, a target knows its name in the configuration. Registered, so that two copies of the module agree. */
const nameKey = Symbol.for('emend.target.name');

/** Anything may stand in a configuration until it is checked. */
export function nameTargets(targets: unknown): void {
  if (typeof targets !== 'object' || targets === null) return;
  for (const [name, target] of Object.entries(targets)) {
    if (typeof target !== 'object' || target === null) continue;
    Object.defineProperty(target, nameKey, { value: name, configurable: true });
  }
}

/** The target's name in the configuration, or undefined for one that `defineConfig` has not seen. */
export function targetNameOf(target: object): string | undefined {
  return (target as { [nameKey]?: string })[nameKey];
}
