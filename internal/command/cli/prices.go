package cli

import (
	"os"
	"strconv"
	"strings"

	"github.com/weirhq/weir/client"
	"github.com/weirhq/weir/internal/engine/ledger"
	"github.com/weirhq/weir/internal/value/document"
	"github.com/weirhq/weir/internal/value/notation"
	"github.com/weirhq/weir/internal/value/yson"
)

// readPrices reads and checks a price list.
func readPrices(name string) (list client.Value, err error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return list, err
	}
	value, err := notation.Parse(name, data)
	if err != nil {
		return list, shortenProblems(err)
	}
	r := document.NewReader(name)
	ledger.PriceListTable.Read(r, value, &ledger.PriceList{})
	if r.HasProblems() {
		return list, shortenProblems(r.Problems())
	}
	node, err := nodeOf(value)
	if err != nil {
		return list, err
	}
	text, err := yson.Append(nil, node, yson.Binary)
	if err != nil {
		return list, err
	}
	return client.ParseValue(string(text))
}

// moneyText is a sum of money with six decimals.
func moneyText(micros int64) string {
	text := strconv.FormatInt(micros, 10)
	sign := ""
	if micros < 0 {
		sign, text = "-", text[1:]
	}
	text = strings.Repeat("0", max(7-len(text), 0)) + text
	return sign + text[:len(text)-6] + "." + text[len(text)-6:]
}
