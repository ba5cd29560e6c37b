import {Button, type ButtonButtonProps, Tooltip} from '@gravity-ui/uikit';

import {type Need, useMissing, useUser} from '../api/permissions';
import {useTexts} from '../text/i18n';

/** useRefusal returns why the reader may not do something that needs these permissions, one of each group; an
 * empty text means nothing is known against it. */
export function useRefusal(groups: Need[][]): string {
  const {t} = useTexts();
  const user = useUser();
  const missing = useMissing(groups);
  return missing ? t('{user} may not do this: it needs the permission “{permission}” on {path}', {user, permission: missing[0], path: missing[1]}) : '';
}

/** GuardedButton is a button that cannot be pressed while there is a reason against it. It can still be
 * focused, because it says the reason then. */
export function GuardedButton({refusal, ...button}: ButtonButtonProps & {refusal: string}) {
  if (!refusal) return <Button {...button} />;
  return (
    <Tooltip content={refusal} openDelay={0}>
      <Button {...button} className={`refused ${button.className ?? ''}`} aria-disabled aria-description={refusal} onClick={undefined} type="button" />
    </Tooltip>
  );
}
