package store

import (
	"database/sql"
	"time"
)

// Writes exposes to tests the connections that commits use.
func Writes(s *Store) *sql.DB { return s.writes }

// SetPatience changes how long calls wait for the database.
func SetPatience(s *Store, commit, read time.Duration) {
	s.patience = patience{commit: commit, read: read, scan: read}
}

// PoolsText and PoolsOf encode and decode stored pools.
var (
	PoolsText = poolsText
	PoolsOf   = poolsOf
)
