import {Icon} from '@gravity-ui/uikit';
import {Star, StarFill} from '@gravity-ui/icons';

import {useSignal} from '../api/queries';
import {favourites, toggled} from '../shell/settings';
import {useTexts} from '../text/i18n';

/** Favourite marks a pool, so that it is listed above the table of pools. */
export function Favourite({tree, pool, inTable}: {tree: string; pool: string; inTable?: boolean}) {
  const {t} = useTexts();
  const list = useSignal(favourites);
  const key = `${tree}/${pool}`;
  const marked = list.includes(key);
  const label = marked ? t('Remove {name} from favourites', {name: pool}) : t('Add {name} to favourites', {name: pool});
  return (
    <button
      type="button" className={`star${marked ? ' star_marked' : ''}`} aria-pressed={marked} aria-label={label} title={label} tabIndex={inTable ? -1 : undefined}
      onClick={() => favourites.set(toggled(favourites.get(), key))}
    >
      <Icon data={marked ? StarFill : Star} size={inTable ? 14 : 18} />
    </button>
  );
}
