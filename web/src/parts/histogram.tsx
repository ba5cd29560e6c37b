import type {Bar} from '../model/memory';

interface HistogramProps {
  label: string;
  bars: Bar[];
  /** top is the upper end of the axis, which starts at 0. */
  top: number;
  /** mark is a labelled position on the axis. */
  mark?: {at: number; name: string};
  print: (part: number) => string;
  hint: (bar: Bar) => string;
}

/** Histogram draws the counts of intervals. */
export function Histogram({label, bars, top, mark, print, hint}: HistogramProps) {
  const most = Math.max(1, ...bars.map((bar) => bar.count));
  return (
    <figure className="histogram" aria-label={label}>
      <div className="histogram__plot">
        {bars.map((bar) => (
          <div key={bar.from} className="histogram__slot" title={hint(bar)}>
            <span className="histogram__count">{bar.count > 0 ? bar.count : ''}</span>
            <span className="histogram__bar" style={{height: `${(bar.count / most) * 100}%`}} />
          </div>
        ))}
        {mark && (
          <div className="histogram__mark" style={{insetInlineStart: `${Math.min(1, mark.at / top) * 100}%`}}>
            <span className={mark.at > 0.6 * top ? 'histogram__name histogram__name_left' : 'histogram__name'}>{mark.name}</span>
          </div>
        )}
      </div>
      <div className="histogram__axis" aria-hidden="true">
        {[0, 0.25, 0.5, 0.75, 1].map((part) => (
          <span key={part}>{print(part * top)}</span>
        ))}
      </div>
    </figure>
  );
}
