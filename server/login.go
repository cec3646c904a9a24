package server

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/sluice-cdc/sluice/cdcerr"
)

// loginWait is how long one TiDB server is waited for.
const loginWait = 5 * time.Second

// deniedCodes are how TiDB and MySQL say that user and password are not right.
var deniedCodes = []uint16{1044, 1045, 1698}

// login lets in whoever TiDB lets in, if the user is one of those that may.
type login struct {
	allowed []string
	// tidbs are the addresses of servers that can tell.
	tidbs func(ctx context.Context) ([]string, error)
}

// check is nil for a user that may ask. Nothing is remembered: a password that
// was changed is wrong at once.
func (l login) check(ctx context.Context, user, password string) error {
	if !slices.Contains(l.allowed, user) {
		return cdcerr.Unauthorized.New("user %q is not in security.client-allowed-user", user)
	}
	servers, err := l.tidbs(ctx)
	if err != nil {
		return err
	}
	if len(servers) == 0 {
		return cdcerr.ServerNotReady.New("no TiDB server that could check a password has told PD where it is")
	}
	var last error
	for _, address := range servers {
		last = ping(ctx, address, user, password)
		var said *mysql.MySQLError
		switch {
		case last == nil:
			return nil
		case errors.As(last, &said) && slices.Contains(deniedCodes, said.Number):
			return cdcerr.Unauthorized.New("TiDB at %s refuses user %q", address, user)
		}
	}
	return cdcerr.ServerNotReady.Wrap(last, "no TiDB server can check the password, the last one tried is %s", servers[len(servers)-1])
}

// ping is one login.
func ping(ctx context.Context, address, user, password string) (err error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = user, password, "tcp", address
	cfg.TLSConfig = "preferred" // TiDB makes itself a certificate where it has none
	cfg.AllowNativePasswords = true
	cfg.Timeout, cfg.ReadTimeout, cfg.WriteTimeout = loginWait, loginWait, loginWait
	cfg.Logger = &mysql.NopLogger{}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return err
	}
	db := sql.OpenDB(connector)
	defer func() { err = errors.Join(err, db.Close()) }()
	return db.PingContext(ctx)
}
