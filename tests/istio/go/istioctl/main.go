// Command istioctl has istioctl's own commands `analyze` and `validate`. Without the other commands it needs fewer
// packages, almost all of which istio-discovery needs too, so that it takes seconds to compile.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"istio.io/istio/istioctl/pkg/analyze"
	"istio.io/istio/istioctl/pkg/cli"
	"istio.io/istio/istioctl/pkg/root"
	"istio.io/istio/istioctl/pkg/validate"
	"istio.io/istio/pkg/config/constants"
	"istio.io/istio/pkg/log"
)

func main() {
	command := &cobra.Command{
		Use:               "istioctl",
		SilenceUsage:      true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return log.Configure(root.LoggingOptions) },
	}
	context := cli.NewCLIContext(cli.AddRootFlags(command.PersistentFlags()))
	if err := command.PersistentFlags().Set(cli.FlagIstioNamespace, constants.IstioSystemNamespace); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	log.EnableKlogWithCobra()
	command.AddCommand(analyze.Analyze(context), validate.NewValidateCommand(context))
	if err := command.Execute(); err != nil {
		os.Exit(1)
	}
}
