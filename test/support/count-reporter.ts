import type { Reporter, TestModule } from 'vitest/node';

/** Closes the output with one plain line, `N passed, N failed`, for people and programs that read only the end. */
export default class CountReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    let passed = 0;
    let failed = errors.length;
    for (const module of modules) {
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state === 'passed') passed += 1;
        if (state === 'failed') failed += 1;
      }
      // A file that could not even be loaded, or whose hooks failed, has no failed test to count.
      const brokenHooks =
        module.errors().length > 0 ||
        [...module.children.allSuites()].some((suite) => suite.errors().length > 0);
      if (brokenHooks) failed += 1;
    }
    if (passed + failed === 0) failed = 1; // nothing ran: the set-up failed, or no test was found
    process.once('exit', () => process.stdout.write(`${passed} passed, ${failed} failed\n`));
  }
}
