import { expect, it, vi } from 'vitest';
import { reportError } from '../../src/cli/report-error.ts';

it('a right that a server misses is told as one, with what to do, and exits with 2', () => {
  const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
  try {
    const refused = Object.assign(new Error('permission denied for table clock'), { code: '42501' });
    expect(reportError(refused, false)).toBe(2);
    expect(reportError(refused, true)).toBe(2);
    const [text, json] = written.mock.calls.map(([output]) => String(output));
    expect(text).toContain('permission denied for table clock');
    expect(text).toContain('Rights');
    expect(JSON.parse(json!)).toMatchObject({ error: { code: 'permission_missing' } });
    expect(reportError(new Error('broken'), false)).toBe(1);
  } finally {
    written.mockRestore();
  }
});
