/** What a fold is given: one for live rows, one for staged ones, and the same statement for both. */
export interface FoldForm {
  /** `select` of the rows to fold, typed, their ends in the axis form: `arrivedRows`, or `stagedRows`. */
  readonly arrived: string;
  /** `select` of their `_id`: `arrivedNumbers`, or `stagedNumbers`. */
  readonly numbers: string;
  /** The expression of K. */
  readonly k: string;
  /** The revision of the target's objects that the statement is made for. */
  readonly revision: number;
}
