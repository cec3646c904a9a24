// Command sluice is all of Sluice: a server, and what an operator asks one.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/sluice-cdc/sluice/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal ends in good order, a second one at once
	os.Exit(cli.Main(ctx, os.Args[1:], cli.System()))
}
