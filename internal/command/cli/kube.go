package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/weirhq/weir/internal/node/kube"
)

func newKubeCommand(opts *options) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "kube",
		Short:   "Look after a Kubernetes cluster in which Weir runs jobs",
		Example: `  weir kube release`,
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var kubeconfig, context, namespace string
	flags := cmd.PersistentFlags()
	flags.StringVar(&kubeconfig, "kubeconfig", "", "file that says how to reach the cluster; else what kubectl uses")
	flags.StringVar(&context, "kube-context", "", "context of the kubeconfig; else the current one")
	flags.StringVar(&namespace, "namespace", "weir-jobs", "namespace of the jobs")
	cmd.AddCommand(&cobra.Command{
		Use:   "release",
		Short: "Remove Weir's finalizer from the pods of jobs, when no scheduler will",
		Long: `Remove Weir's finalizer from all pods of jobs. It keeps each pod until its result is stored, so without a scheduler
it holds the pods and their namespace forever. Pods that run go on running. Results that were not stored yet are lost: use
this when Weir is removed, after its schedulers have stopped.`,
		Example: `  weir kube release
  weir kube release --namespace batch`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, _, err := kube.Connect(kubeconfig, context, "weir/"+readBuild().Version)
			if err != nil {
				return err
			}
			released, err := kube.Release(cmd.Context(), client, namespace, false)
			if err != nil {
				return err
			}
			return opts.print(cmd.OutOrStdout(), map[string]any{"namespace": namespace, "released_pods": released}, func(w io.Writer) error {
				_, err := fmt.Fprintf(w, "Released %s of the namespace %s.\n", plural(int64(released), "pod", "pods"), namespace)
				return err
			})
		},
	})
	return cmd
}
