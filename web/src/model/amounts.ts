// Amounts as people type them: memory with units, the rest as numbers.

const units: Record<string, number> = {
  '': 1, k: 1000, m: 1000 ** 2, g: 1000 ** 3, t: 1000 ** 4, p: 1000 ** 5,
  ki: 1024, mi: 1024 ** 2, gi: 1024 ** 3, ti: 1024 ** 4, pi: 1024 ** 5,
};

// Russian letters that a reader with the Russian page may type for the units.
const latin: Record<string, string> = {б: 'b', к: 'k', м: 'm', г: 'g', т: 't', п: 'p', и: 'i'};

/** readNumber converts typed text to a number where possible; an empty text is no value, and any other text
 * stays as it is, for the server to refuse. */
export function readNumber(text: string): string | number | undefined {
  const trimmed = text.trim();
  if (trimmed === '') return undefined;
  const number = Number(trimmed.replace(/^(-?\d+),(\d+)$/, '$1.$2'));
  return Number.isFinite(number) ? number : trimmed;
}

/** readAmount is readNumber for an amount of a resource: memory may have a unit, such as 64GiB or 1.5 TB. */
export function readAmount(resource: string, text: string): string | number | undefined {
  if (resource !== 'memory') return readNumber(text);
  const found = /^(-?\d+(?:[.,]\d+)?)\s*([a-zа-я]*)$/.exec(text.trim().toLowerCase());
  if (!found) return readNumber(text);
  const unit = [...found[2]!].map((letter) => latin[letter] ?? letter).join('').replace(/b$/, '');
  const size = units[unit];
  return size === undefined ? text.trim() : Math.round(Number(found[1]!.replace(',', '.')) * size);
}

const binary = ['PiB', 'TiB', 'GiB', 'MiB', 'KiB'];

/** writeAmount writes an amount so that readAmount reads the same value: memory in the largest unit that
 * needs at most three digits after the point. */
export function writeAmount(resource: string, value: unknown): string {
  if (value === undefined || value === null) return '';
  if (resource !== 'memory' || typeof value !== 'number' || value === 0) return String(value);
  for (const [i, unit] of binary.entries()) {
    const size = 1024 ** (binary.length - i);
    const text: string = (value / size).toFixed(3).replace(/\.?0+$/, '');
    if (Math.abs(value) >= size && Math.abs(value) < 1e5 * size && Number(text) * size === value) return `${text}${unit}`;
  }
  return String(value);
}
