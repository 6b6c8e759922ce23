package remote

import (
	"context"
	"errors"
	"fmt"
	"io"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
)

// eachOperand calls one for each operand. It returns the error of a single operand. It prints the
// errors of several operands, and returns an error with their number and the verb done, such as
// "removed". A lost connection ends the calls.
func eachOperand(ctx context.Context, errs io.Writer, done string, operands []string, one func(typed string) error) error {
	failed := 0
	for _, typed := range operands {
		err := one(typed)
		var lost *execclient.DisconnectedError
		switch {
		case err == nil:
		case len(operands) == 1, ctx.Err() != nil, errors.Is(err, execclient.ErrClosed), errors.As(err, &lost):
			return err
		default:
			failed++
			cmdutil.Messagef(errs, "codex: %v\n", err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d were not %s", failed, len(operands), done)
	}
	return nil
}
