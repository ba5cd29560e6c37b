package store

import "database/sql"

// Writes gives tests the connections that commits use.
func Writes(s *Store) *sql.DB { return s.writes }

// PoolsText and PoolsOf are the two directions of how pools are stored.
var (
	PoolsText = poolsText
	PoolsOf   = poolsOf
)
