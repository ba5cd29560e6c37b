import type {Forecast} from '../api/types';
import {moment} from '../model/format';
import {held, next} from '../model/forecast';
import {useTexts} from '../text/i18n';

/** Eta says when an operation starts or finishes, with the interval; whole also says how well such forecasts held. */
export function Eta({forecast, whole}: {forecast: Forecast | undefined; whole?: boolean}) {
  const {t, locale} = useTexts();
  const found = next(forecast);
  if (!found) return <span className="muted">–</span>;
  const {starts, times} = found;
  const at = (instant: string | null) => (instant ? moment(instant, locale) : t('after more than a day'));
  const interval = `${at(times.earliest)} – ${at(times.latest)}`;
  const part = held(times);
  const record = part === undefined ? t('not calibrated') : t('{part} % of such intervals held in the last week (n = {n})', {part, n: times.settled});
  return (
    <span className={whole ? undefined : 'twolines'} title={`${interval}; ${record}`}>
      <span className={times.calibrated ? undefined : 'muted'}>
        {starts ? t('starts {at}', {at: at(times.median)}) : t('finishes {at}', {at: at(times.median)})}
      </span>{' '}
      {whole ? (
        <span className="muted">
          ({interval}; {record})
        </span>
      ) : (
        <span className="muted">{interval}</span>
      )}
    </span>
  );
}
