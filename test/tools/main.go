// Command tools builds the programs that tests with Kubernetes start: Helm, etcd, an API server and the filters of kube-scheduler. Where their sources
// cannot be fetched it says so and succeeds; the tests are skipped then.
package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/weirhq/weir/test/expected"
)

func main() {
	for _, tool := range []expected.Tool{expected.Helm, expected.Etcd, expected.APIServer, expected.Oracle} {
		err := tool.Build()
		switch {
		case errors.Is(err, expected.ErrNoSources):
			fmt.Fprintln(os.Stderr, "TESTS WITH KUBERNETES DO NOT RUN HERE:", err)
			return
		case err != nil:
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
