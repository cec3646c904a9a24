package server

import (
	"context"
	"errors"
	"testing"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/internal/mariadb"
)

func TestLogin(t *testing.T) {
	db := mariadb.Start(t)
	admin := db.DB()
	defer admin.Close()
	for _, statement := range []string{"CREATE USER operator@'%' IDENTIFIED BY 'right'", "CREATE USER operator@localhost IDENTIFIED BY 'right'"} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	at := func(servers ...string) func(context.Context) ([]string, error) {
		return func(context.Context) ([]string, error) { return servers, nil }
	}
	const dead = "127.0.0.1:1"
	for name, c := range map[string]struct {
		tidbs          func(context.Context) ([]string, error)
		user, password string
		want           *cdcerr.Code
	}{
		"right":           {at(db.Addr()), "operator", "right", nil},
		"the second":      {at(dead, db.Addr()), "operator", "right", nil},
		"wrong password":  {at(db.Addr()), "operator", "wrong", cdcerr.Unauthorized},
		"wrong then dead": {at(db.Addr(), dead), "operator", "wrong", cdcerr.Unauthorized},
		"not allowed":     {at(db.Addr()), "root", "", cdcerr.Unauthorized},
		"unknown to TiDB": {at(db.Addr()), "ghost", "right", cdcerr.Unauthorized},
		"no server":       {at(), "operator", "right", cdcerr.ServerNotReady},
		"dead server":     {at(dead), "operator", "right", cdcerr.ServerNotReady},
		"no PD": {func(context.Context) ([]string, error) { return nil, cdcerr.PDUnreachable.Wrap(errors.New("x"), "y") },
			"operator", "right", cdcerr.PDUnreachable},
	} {
		l := login{allowed: []string{"operator", "ghost"}, tidbs: c.tidbs}
		if err := l.check(t.Context(), c.user, c.password); cdcerr.Of(err) != c.want || (err == nil) != (c.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
