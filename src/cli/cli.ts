#!/usr/bin/env node
/**
 * The `emend` command.
 *
 * Promise: exit code 0 done, 1 failed at run time, 2 bad input and nothing changed; results on stdout and nowhere else;
 * errors on stderr, each with what happened, where, and what to do. With `--json` both are JSON.
 * If it breaks: scripts take a failure for a success, or cannot read the answer.
 */
import { runProgram } from './program.ts';

// a reader that has seen enough, such as head, is no failure
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1));

const exitCode = await runProgram(process.argv);
// written to the end before leaving; lingering sockets must not keep a finished command alive
process.stdout.write('', () => process.exit(exitCode));
