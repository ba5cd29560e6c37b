import {useTexts} from '../text/i18n';
import {decimal, ratio, share} from '../model/format';

/** ShareBar shows usage divided by fair share, from 0 to 2 with a tick at 1. */
export function ShareBar({usage, fair}: {usage: number; fair: number}) {
  const {t, locale} = useTexts();
  const value = ratio(usage, fair);
  const label = t('usage {usage} of fair share {fair}', {usage: share(usage, locale), fair: share(fair, locale)});
  const kind = value === 0 ? 'none' : value < 0.8 ? 'below' : value <= 1.001 ? 'within' : 'above';
  return (
    <span className="sharebar" title={label}>
      <span className="sharebar__track" role="img" aria-label={label}>
        <span className={`sharebar__fill sharebar__fill_${kind}`} style={{width: `${Math.min(value, 2) * 50}%`}} />
        <span className="sharebar__tick" />
      </span>
      <span className="sharebar__number">{Number.isFinite(value) ? decimal(value, locale, 2) : '∞'}</span>
    </span>
  );
}

export interface Part {
  value: number;
  kind: string;
  title: string;
}

/** PartsBar shows a whole and its parts. */
export function PartsBar({parts, whole, label}: {parts: Part[]; whole: number; label: string}) {
  return (
    <span className="partsbar" role="img" aria-label={label} title={label}>
      {parts.map(
        (part) =>
          part.value > 0 && (
            <span
              key={part.kind}
              className={`partsbar__part partsbar__part_${part.kind}`}
              style={{width: `${Math.min(100, (part.value / Math.max(whole, 1e-9)) * 100)}%`}}
              title={part.title}
            />
          ),
      )}
    </span>
  );
}

/** Meter shows how much of something is used. */
export function Meter({value, of, label, kind = 'usage'}: {value: number; of: number; label: string; kind?: string}) {
  return <PartsBar whole={of} label={label} parts={[{value, kind, title: label}]} />;
}
