package server

import (
	"encoding/json"
	"testing"

	"github.com/weirhq/weir/internal/value/resource"
)

// TestFactsAreWrittenAsAnEncoderWould compares documents of facts and amounts with those that
// encoding/json makes from maps.
func TestFactsAreWrittenAsAnEncoderWould(t *testing.T) {
	amounts := resource.Amounts{resource.UserSlots: 3, resource.CPU: 150, resource.Memory: 7 << 40, resource.Network: 1}
	named := map[string]float64{}
	for _, k := range resource.Kinds {
		if amounts[k] != 0 {
			named[k.String()] = amounts.Float(k)
		}
	}
	facts := []fact{
		{"task", "a \"quoted\" name\n"}, {"ran_ms", int64(-5)}, {"reason", ""}, {"began", true}, {"resources", amountsFact(amounts)},
		{"waiting", 12}, {"none", nil}, {"ratio", 0.25},
	}
	want := mustJSON(map[string]any{
		"task": "a \"quoted\" name\n", "ran_ms": -5, "began": true, "resources": named, "waiting": 12, "ratio": 0.25,
	})
	if got := factsDocument(facts); string(got) != string(want) {
		t.Errorf("facts are written as\n%s, want\n%s", got, want)
	}
	if got := factsDocument([]fact{{"reason", ""}}); got != nil {
		t.Errorf("no facts are written as %s", got)
	}
	if got := amountsDocument(resource.Amounts{}); string(got) != "{}" || !json.Valid(got) {
		t.Errorf("nothing is written as %s", got)
	}
}
