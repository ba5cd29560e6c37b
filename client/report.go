package client

import (
	"context"
	"time"
)

// GuaranteeReport states which guarantees were kept.
type GuaranteeReport struct {
	// From and To are the time that it is about: whole hours, and long ago whole days or months.
	From  time.Time        `yson:"from_time"`
	To    time.Time        `yson:"to_time"`
	Pools []PoolGuarantees `yson:"pools"`
	// Verification is there if the query asks for it.
	Verification *LedgerVerification `yson:"verification"`
	Raw          Value               `yson:"."`
}

// LedgerVerification states whether stored books equal what the log of facts sums to.
type LedgerVerification struct {
	From  time.Time `yson:"from_time"`
	To    time.Time `yson:"to_time"`
	Equal bool      `yson:"equal"`
	// Hours, Days and Months count the rows that were compared.
	Hours  int64 `yson:"hours"`
	Days   int64 `yson:"days"`
	Months int64 `yson:"months"`
	// Unverified are hours that the log does not cover.
	Unverified  []time.Time        `yson:"unverified"`
	Differences []LedgerDifference `yson:"differences"`
}

// LedgerDifference is a figure of stored books that differs from the log: exact integers, in the smallest units of the resource ×
// microseconds.
type LedgerDifference struct {
	Tree     string    `yson:"pool_tree"`
	Pool     string    `yson:"pool"`
	Level    string    `yson:"level"` // hour, day or month
	Start    time.Time `yson:"start_time"`
	Resource string    `yson:"resource"`
	Figure   string    `yson:"figure"`
	Stored   string    `yson:"stored"`
	Computed string    `yson:"computed"`
}

// PoolGuarantees are the books of a pool in one resource: the dominant one of its demand. Amounts are in
// units × seconds, such as cores × seconds.
type PoolGuarantees struct {
	Tree     string `yson:"pool_tree"`
	Pool     string `yson:"pool"`
	Resource string `yson:"resource"`
	// Promised is what is configured, Due the part of it that the pool asked for, Unclaimed the rest.
	Promised  float64 `yson:"promised"`
	Asked     float64 `yson:"asked"`
	Due       float64 `yson:"due"`
	Got       float64 `yson:"got"`
	Unclaimed float64 `yson:"unclaimed"`
	// Surplus is what the pool got beyond what was due: Due + Surplus = Got + Short.
	Surplus float64 `yson:"surplus"`
	// Short is what was due and not got, by cause in Causes. Broken is the part of it that does not
	// follow from the pool's own settings.
	Short  float64      `yson:"short"`
	Broken float64      `yson:"broken"`
	Causes []ShortCause `yson:"causes"`
	// Kept is the part of Due that was not broken, and KeptTime the part of the time in which anything was
	// due and at most one percent of it was broken; nil if nothing was due.
	Kept     *float64 `yson:"kept"`
	KeptTime *float64 `yson:"kept_time"`
	// Day is the day of the line in a report by day.
	Day string `yson:"day"`
	// Flow is the books of a relaxed pool's flow; nil for other pools.
	Flow *FlowGuarantee `yson:"flow"`
}

// FlowGuarantee is what a relaxed pool was promised over time, in seconds of its whole tree.
type FlowGuarantee struct {
	// Flowed is its flow, Due the part that it asked for when it came or could save until it asked, Got what
	// it got by it, and Overflowed what it could not save.
	Flowed     float64 `yson:"flowed"`
	Due        float64 `yson:"due"`
	Got        float64 `yson:"got"`
	Overflowed float64 `yson:"overflowed"`
	// Kept reports whether it got at least 99 % of what was due; nil if nothing was.
	Kept *bool `yson:"kept"`
}

// ShortCause is a part of what a pool lacked.
type ShortCause struct {
	Cause  string  `yson:"cause"` // such as node_loss
	Amount float64 `yson:"amount"`
	Own    bool    `yson:"own"` // whether it is in the pool's own settings or spending
}

// ReportQuery selects a report.
type ReportQuery struct {
	Tree string    `yson:"pool_tree"` // empty means the default tree
	Pool string    `yson:"pool"`      // empty means all pools
	From time.Time `yson:"from_time"` // zero means the start of the day of To, in UTC
	To   time.Time `yson:"to_time"`   // zero means now
	// By divides the lines: "day" in reports about guarantees; "tree", "pool", "user", "day" and "label:NAME" in
	// those about usage, savings and waits, which are by pool and user if it is empty.
	By []string `yson:"by"`
	// Verify asks for the verification of a report about guarantees.
	Verify bool `yson:"verify"`
	// Prices is the price list for a report about usage; null means that of the scheduler's settings.
	Prices Value `yson:"prices"`
}

// Report is a report with a table. Lines have a value for each column.
type Report struct {
	From    time.Time `yson:"from_time"`
	To      time.Time `yson:"to_time"`
	Columns []string  `yson:"columns"`
	Lines   []Value   `yson:"lines"`
	Raw     Value     `yson:"."`
}

// ReportPreemptions returns which jobs were preempted, for whom, by which rule, and what that cost. Raw has the
// cycles found.
func (c *Client) ReportPreemptions(ctx context.Context, q ReportQuery) (*Report, error) {
	return askReport[Report](ctx, c, "preemptions", q)
}

// ReportUsage returns who used what. If there are prices, lines have costs in millionths of the currency, and Raw has the
// currency and the total.
func (c *Client) ReportUsage(ctx context.Context, q ReportQuery) (*Report, error) {
	return askReport[Report](ctx, c, "usage", q)
}

// ReportSavings returns how much of what jobs asked for they did not use, and what was saved of that.
func (c *Client) ReportSavings(ctx context.Context, q ReportQuery) (*Report, error) {
	return askReport[Report](ctx, c, "savings", q)
}

// ReportWaits returns how long operations waited for their first jobs.
func (c *Client) ReportWaits(ctx context.Context, q ReportQuery) (*Report, error) {
	return askReport[Report](ctx, c, "waits", q)
}

func askReport[T any](ctx context.Context, c *Client, name string, q ReportQuery) (*T, error) {
	return ask[T](ctx, c, "get_report", struct {
		Report string    `yson:"report"`
		Tree   string    `yson:"pool_tree"`
		Pool   string    `yson:"pool"`
		From   time.Time `yson:"from_time"`
		To     time.Time `yson:"to_time"`
		By     []string  `yson:"by"`
		Verify bool      `yson:"verify"`
		Prices Value     `yson:"prices"`
	}{name, q.Tree, q.Pool, q.From, q.To, q.By, q.Verify, q.Prices})
}

// ReportBudgets returns how much of each budget is spent in the month of a report's start.
func (c *Client) ReportBudgets(ctx context.Context, q ReportQuery) (*Report, error) {
	return askReport[Report](ctx, c, "budgets", q)
}

// ReportGuarantees returns which guarantees were kept, and why others were not.
func (c *Client) ReportGuarantees(ctx context.Context, q ReportQuery) (*GuaranteeReport, error) {
	return askReport[GuaranteeReport](ctx, c, "guarantees", q)
}
