/** Those that emend makes; `null_share` and `sum` are of a column each. */
const checkNames = [
  'rows', 'keys', 'raw_input', 'outside_boundary', 'contradictions', 'valid_at_load_time', 'superseded_by_newer', 'changes',
  'first_answers', 'answers_lost', 'answers_lost_from_now_on', 'merge', 'overlaps', 'samples_differing',
  'rows_against_today', 'keys_against_today', 'gaps_opened',
]; // prettier-ignore

/**
 * Of names that are accepted those that no check has, whatever rows come: one that is made only for some rows may be accepted.
 *
 * @param own the author's own checks
 */
export function unknownChecks(accepted: readonly string[], own: readonly string[]): string[] {
  const known = new Set([...checkNames, ...own]);
  return accepted.filter((name) => !known.has(name) && !/^(null_share|sum):./.test(name));
}

/** All of them, for whoever named another. */
export function describeKnownChecks(own: readonly string[]): string {
  return `${[...checkNames, ...own].join(', ')}, and of a column null_share:price, sum:price`;
}
