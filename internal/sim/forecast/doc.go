// Package forecast answers when operations start and finish, with intervals that
// hold as often as they state.
//
//	Model      run times of jobs, learnt from those that have ended
//	Run        an ensemble: possible futures of a core, on forks
//	History    quantiles of recent waits, the answer without an ensemble
//	Keeper     published forecasts: corrected by the outcomes of earlier ones,
//	           scored when their outcomes are known
//	Desk       all of these for a live cluster
//	Collect    forecasts on a scenario; Judge compares them with simpler methods
//
// An ensemble runs forks of one core ahead on virtual time. The scheduler's own code
// decides in each; they differ in how long jobs run. One ensemble answers for all
// operations. Its quantiles are too narrow, because it knows no arrivals and no
// failures, so a Keeper widens them by what happened to earlier forecasts (conformal
// prediction with an adaptive level).
//
// The package is pure: it has no clock, starts no goroutines, and the same seed gives
// the same forecasts.
package forecast
