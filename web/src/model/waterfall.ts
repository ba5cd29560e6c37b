import type {WaterfallRow} from '../api/types';

/** Step is a row of a waterfall with the part of the whole at which it begins and ends. */
export interface Step {
  row: WaterfallRow;
  from: number;
  to: number;
}

/** stepsOf places the rows one after the other: each begins where the last one ends, and the last ends at 1. */
export function stepsOf(rows: WaterfallRow[], whole: number): Step[] {
  let sum = 0;
  return rows.map((row) => {
    const from = whole > 0 ? sum / whole : 0;
    sum += row.amount;
    return {row, from, to: whole > 0 ? Math.min(sum / whole, 1) : 0};
  });
}
