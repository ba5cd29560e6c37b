import {useQueries} from '@tanstack/react-query';

import {call} from './client';
import {useCommand} from './queries';

/** Need is a permission on the node at a path, such as ['write', '//sys/pools/research']. */
export type Need = [permission: string, path: string];

interface Answer {
  action: 'allow' | 'deny';
  reason: string;
}

/** useUser returns the name of the user that the server knows the reader as; empty until it is known. */
export function useUser(): string {
  return useCommand<{user: string}>('get_current_user').data?.user ?? '';
}

/** usePermissions returns for each need whether the reader has the permission; undefined as long as the server has
 * not answered. */
export function usePermissions(needs: Need[]): (boolean | undefined)[] {
  const answers = useQueries({
    queries: needs.map(([permission, path]) => ({
      queryKey: ['check_permission', path, permission],
      queryFn: ({signal}: {signal: AbortSignal}) => call<Answer>('check_permission', {permission, path}, signal),
      staleTime: 30_000,
    })),
  });
  return answers.map(({data}) => (data === undefined ? undefined : data.action === 'allow'));
}

/** useMissing returns a permission that the reader lacks: the first one of the first group of which the reader
 * has none. It is undefined if nothing is missing, and as long as the server has not answered: the server
 * decides again anyway. */
export function useMissing(groups: Need[][]): Need | undefined {
  const flat = groups.flat();
  const allowed = usePermissions(flat);
  const denied = new Set(flat.filter((_, i) => allowed[i] === false));
  return groups.find((group) => group.length > 0 && group.every((need) => denied.has(need)))?.[0];
}
