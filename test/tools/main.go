// Command tools builds the programs that tests with Kubernetes start: Helm, etcd, an API server and the filters of kube-scheduler. Where their sources
// cannot be fetched it says so and succeeds; the tests are skipped then.
//
// With arguments, it builds the programs that they name and prints where they are.
package main

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/weirhq/weir/test/expected"
)

func main() {
	if names := os.Args[1:]; len(names) > 0 {
		if err := buildNamed(names); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
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

func buildNamed(names []string) error {
	for _, name := range names {
		i := slices.IndexFunc(expected.Tools, func(t expected.Tool) bool { return t.Name == name })
		if i < 0 {
			return fmt.Errorf("%s: there is no such tool", name)
		}
		if err := expected.Tools[i].Build(); err != nil {
			return err
		}
		program, err := expected.Tools[i].Find()
		if err != nil {
			return err
		}
		fmt.Println(program)
	}
	return nil
}
