package cli

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/weirhq/weir/client"
)

func TestPeriodsOfReports(t *testing.T) {
	for _, test := range []struct {
		period   period
		from, to string
		wrong    string
	}{
		{period{}, "", "", ""},
		{period{day: "2026-10-31"}, "2026-10-31T00:00:00Z", "2026-11-01T00:00:00Z", ""},
		{period{month: "2026-12"}, "2026-12-01T00:00:00Z", "2027-01-01T00:00:00Z", ""},
		{period{from: "2026-10-31", to: "2026-10-31T12:00:00+02:00"}, "2026-10-31T00:00:00Z", "2026-10-31T10:00:00Z", ""},
		{period{day: "2026-10"}, "", "", "--day"},
		{period{month: "October"}, "", "", "--month"},
		{period{from: "yesterday"}, "", "", "--from"},
		{period{to: "2026-13-01"}, "", "", "--to"},
	} {
		from, to, err := test.period.read()
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%+v: the error is %v", test.period, err)
			}
			continue
		}
		format := func(at time.Time) string {
			if at.IsZero() {
				return ""
			}
			return at.UTC().Format(time.RFC3339)
		}
		if err != nil || format(from) != test.from || format(to) != test.to {
			t.Errorf("%+v: from %v to %v, %v", test.period, from, to, err)
		}
	}
}

func TestAReportShowsADashWithoutDemandAndNeverRoundsUp(t *testing.T) {
	nearly := 0.999999
	report := &client.GuaranteeReport{Pools: []client.PoolGuarantees{
		{Tree: "default", Pool: "idle", Resource: "cpu", Promised: 3600},
		{
			Tree: "default", Pool: "busy", Resource: "cpu", Promised: 3600, Due: 3600, Short: 10, Kept: &nearly, KeptTime: &nearly,
			Causes: []client.ShortCause{{Cause: "node_loss", Amount: 4}, {Cause: "placing", Amount: 6}},
		},
	}}
	var table, lines bytes.Buffer
	if err := writeGuarantees(&table, report, nil); err != nil {
		t.Fatal(err)
	}
	if err := writeGuaranteesCSV(&lines, report); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"–", "99.99%", "placing 6 core·s, node_loss 4 core·s"} {
		if !strings.Contains(table.String(), want) {
			t.Errorf("the table lacks %q:\n%s", want, table.String())
		}
	}
	rows := strings.Split(strings.TrimSpace(lines.String()), "\n")
	if len(rows) != 3 || !strings.HasPrefix(rows[0], "from,to,tree,pool,resource,promised,") || !strings.HasSuffix(rows[2], "0,0,0,0,0,4,0,0,0,0,6,0,,,,,,,0") {
		t.Errorf("the CSV is\n%s", lines.String())
	}
}
