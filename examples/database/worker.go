package main

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
	_ "modernc.org/sqlite"
)

// query is what the model writes to look something up.
type query struct {
	SQL string `json:"sql" description:"one SELECT statement" minLength:"1"`
}

// order is what the model writes to buy something.
type order struct {
	Item  string `json:"item" description:"what to buy"`
	Count int    `json:"count" description:"how many" minimum:"1" maximum:"100"`
}

// runWorker offers the database in a file as two tools in the group database.
func runWorker(ctx context.Context, nc *nats.Conn, file string) error {
	db, err := sql.Open("sqlite", "file:"+file+"?_pragma=busy_timeout(5000)")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, session TEXT, item TEXT, count INTEGER)`); err != nil {
		return err
	}
	reader, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(5000)") // so that a query can only look
	if err != nil {
		return err
	}
	defer reader.Close()

	tools := toolkit.New()
	err = tools.Add(
		toolkit.MustDefine("db_query", "Looks something up in the table orders (id, session, item, count).",
			func(ctx context.Context, in query) ([]map[string]any, error) { return rows(ctx, reader, in.SQL) },
			&toolkit.Options{Group: "database", ReadOnly: true, ConcurrencySafe: true}),
		// Neither read-only nor idempotent: it runs at most once, whoever is killed.
		toolkit.MustDefine("db_order", "Orders something.",
			func(ctx context.Context, in order) (string, error) {
				call, _ := toolkit.CallFrom(ctx)
				_, err := db.ExecContext(ctx, `INSERT INTO orders (session, item, count) VALUES (?, ?, ?)`, string(call.Session()), in.Item, in.Count)
				return fmt.Sprintf("ordered %d × %s", in.Count, in.Item), err
			}, &toolkit.Options{Group: "database"}),
	)
	if err != nil {
		return err
	}
	w, err := workers.New(nc, tools, workers.Config{Name: "database"})
	if err != nil {
		return err
	}
	fmt.Println("worker runs")
	return w.Run(ctx)
}

// rows runs a query and returns what it finds, column by column.
func rows(ctx context.Context, db *sql.DB, text string) ([]map[string]any, error) {
	found, err := db.QueryContext(ctx, text)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	columns, err := found.Columns()
	if err != nil {
		return nil, err
	}
	out := []map[string]any{}
	for found.Next() {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := found.Scan(into...); err != nil {
			return nil, err
		}
		row := make(map[string]any, len(columns))
		for i, c := range columns {
			row[c] = values[i]
		}
		out = append(out, row)
	}
	return out, found.Err()
}
