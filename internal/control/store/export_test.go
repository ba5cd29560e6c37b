package store

import (
	"database/sql"
	"time"
)

// Writes gives tests the connections that commits use.
func Writes(s *Store) *sql.DB { return s.writes }

// SetPatience changes how long calls wait for the database.
func SetPatience(s *Store, commit, read time.Duration) {
	s.patience = patience{commit: commit, read: read, scan: read}
}

// PoolsText and PoolsOf are the two directions of how pools are stored.
var (
	PoolsText = poolsText
	PoolsOf   = poolsOf
)
