import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { EmendError } from '../errors.ts';

const run = promisify(execFile);

/**
 * What finds the program again that computed the rows: the git commit of the folder, with `-dirty` behind it where files
 * have changed since.
 *
 * @throws EmendError `bad_arguments` where there is no commit
 */
export async function gitCommit(cwd: string): Promise<string> {
  try {
    const { stdout } = await run('git', ['describe', '--always', '--dirty', '--abbrev=40', '--exclude=*'], {
      cwd,
    });
    return stdout.trim();
  } catch (error) {
    throw new EmendError(
      'bad_arguments',
      'the version of the logic is not known: there is no git commit here',
      {
        remedy:
          'Give it with --logic-version, or as logicVersion in a backfill file: whatever finds the program again that computed the rows.',
        cause: error,
      },
    );
  }
}
