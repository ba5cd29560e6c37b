export interface Entry {
  action: string;
  subjects: string[];
  permissions: string[];
  inheritance_mode?: string;
}

/** permissions are those that decide about pools. */
export const permissions = ['read', 'use', 'write', 'manage', 'remove', 'modify_children', 'administer'];

const text = (entry: Entry) => JSON.stringify([entry.action, entry.subjects, entry.permissions, entry.inheritance_mode ?? 'object_and_descendants']);

/** inheritedOf returns the entries in effect that are not a node's own. */
export function inheritedOf(effective: Entry[], own: Entry[]): Entry[] {
  const left = own.map(text);
  return effective.filter((entry) => {
    const at = left.indexOf(text(entry));
    if (at >= 0) left.splice(at, 1);
    return at < 0;
  });
}

/** namesOf reads typed names, separated by commas or spaces. */
export function namesOf(typed: string): string[] {
  return [...new Set(typed.split(/[\s,]+/).filter(Boolean))];
}
