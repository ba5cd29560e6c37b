// Package config owns the settings of Weir's processes: their names, meanings,
// defaults and bounds, and how a file, WEIR_… variables and flags become one
// effective configuration that records where each value came from.
//
// There are three sections: scheduler, node and up. Each is a list of rows over
// internal/value/document; everything else follows from the rows: strict reading,
// flags, names of variables, the printed configuration, docs/configuration.md, and
// which settings may change while the process runs.
//
// A daemon loads its configuration like this:
//
//	flags := config.Bind(cmd.Flags(), config.SchedulerSection)
//	…
//	loaded, warnings, err := config.Load(config.Sources{
//		File: name, Data: data, Environ: os.Environ(), Flags: []*config.Flags{flags},
//	})
//	if err == nil {
//		err = loaded.Require(config.SchedulerSection)
//	}
//
// The package reads no file, variable or clock itself: the caller passes their
// contents. It knows the settings but not the processes that use them, so it
// imports no daemon, store or protocol.
package config
