import type {Forecast, ForecastTimes} from '../api/types';

/** next returns what a forecast says about the next event of an operation: its start, or else its finish. */
export function next(forecast: Forecast | undefined): {starts: boolean; times: ForecastTimes} | undefined {
  if (forecast?.start) return {starts: true, times: forecast.start};
  if (forecast?.finish) return {starts: false, times: forecast.finish};
  return undefined;
}

/** held returns how many percent of such intervals held lately; undefined if that is not known. */
export function held(times: ForecastTimes): number | undefined {
  return times.calibrated && times.settled > 0 ? Math.round((100 * times.held) / times.settled) : undefined;
}
