package server

import (
	"os"
	"runtime/debug"
)

// TradeMemory lets the process use more memory before the garbage collector runs: three times
// what is in use on top of it, instead of once. Jobs that start and end by the thousand leave
// much behind, and collecting it would cost a fifth of the scheduler's time. The environment
// variables GOGC and GOMEMLIMIT have their usual meaning.
func TradeMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(300)
	}
}
