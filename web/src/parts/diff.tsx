import type {Change} from '../model/changes';

const kinds: Record<string, string> = {'+': 'added', '-': 'removed', '~': 'changed', '>': 'changed', '#': 'changed'};

/** Diff shows changes line by line: what was, and what is. */
export function Diff({changes}: {changes: Change[]}) {
  return (
    <ul className="diff diff_lines">
      {changes.map((change, i) => (
        <li key={i} className={`diff__line diff__line_${kinds[change.sign] ?? 'plain'}`}>
          <span className="diff__sign">{change.sign} </span>
          {change.what}
          {change.after !== undefined && (
            <>
              : <del>{change.before}</del> → <ins>{change.after}</ins>
            </>
          )}
        </li>
      ))}
    </ul>
  );
}
