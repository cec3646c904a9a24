package servers

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// self is what a server says of itself.
type self struct {
	ID    string `json:"id"`
	Owner bool   `json:"is_owner"`
}

func (n *Node) self(ctx context.Context) (who self, err error) {
	text, err := answered(ctx, lookMax, http.MethodGet, "http://"+n.Address+"/api/v2/status", nil)
	if err != nil {
		return who, err
	}
	return who, json.Unmarshal(text, &who)
}

// living are the servers that are to live.
func (s *Site) living() []*Node {
	return slices.DeleteFunc(slices.Clone(s.Nodes), (*Node).Rests)
}

// share is a server's part of the changefeed, as the API tells it.
type share struct {
	*Node
	self
	Tables []int64
}

// members are the ids of captures, as the API tells them.
func (s *Site) members(ctx context.Context) (ids []string, err error) {
	text, err := s.ask(ctx, "/api/v1/captures")
	if err != nil {
		return nil, err
	}
	var all []self
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	for _, c := range all {
		ids = append(ids, c.ID)
	}
	return ids, nil
}

// tasks are the tables of each capture, as the API tells them.
func (s *Site) tasks(ctx context.Context) (map[string][]int64, error) {
	text, err := s.ask(ctx, "/api/v2/changefeeds/"+feedName)
	if err != nil {
		return nil, err
	}
	var feed struct {
		Tasks []struct {
			ID     string  `json:"capture_id"`
			Tables []int64 `json:"table_ids"`
		} `json:"task_status"`
	}
	if err := json.Unmarshal(text, &feed); err != nil {
		return nil, err
	}
	out := map[string][]int64{}
	for _, t := range feed.Tasks {
		out[t.ID] = t.Tables
	}
	return out, nil
}

// shares are those of all servers that are to live; an error where one of them is not
// a capture, or there are others.
func (s *Site) shares(ctx context.Context) (out []share, err error) {
	members, err := s.members(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := s.tasks(ctx)
	if err != nil {
		return nil, err
	}
	for _, n := range s.living() {
		one := share{Node: n}
		if one.self, err = n.self(ctx); err != nil {
			return nil, err
		}
		if !slices.Contains(members, one.ID) {
			return nil, fmt.Errorf("%s is no capture: %s is not among %q", n.Name, one.ID, members)
		}
		one.Tables = tasks[one.ID]
		out = append(out, one)
	}
	if len(out) != len(members) {
		return nil, fmt.Errorf("%d captures, want %d: %q", len(members), len(out), members)
	}
	return out, nil
}

// gathered waits until all servers that are to live are captures, and each has tables.
func (s *Site) gathered(ctx context.Context) (out []share, err error) {
	err = s.until(ctx, "every server has tables", func() error {
		if out, err = s.shares(ctx); err != nil {
			return err
		}
		for _, one := range out {
			if len(one.Tables) == 0 {
				return fmt.Errorf("%s, capture %s, has none; all have %v", one.Name, one.ID, sizes(out))
			}
		}
		return nil
	})
	return out, err
}

func sizes(all []share) (out []int) {
	for _, one := range all {
		out = append(out, len(one.Tables))
	}
	return out
}

// drainEvery is how often a drain is asked for again, as TiCDC's clients do.
const drainEvery = 500 * time.Millisecond

// drain takes a capture's tables away, and waits until it has none.
func (s *Site) drain(ctx context.Context, one share) error {
	body, err := json.Marshal(map[string]string{"capture_id": one.ID})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Patience)
	defer cancel()
	for {
		left, err := s.drainOnce(ctx, body)
		if err == nil && left == 0 {
			return nil
		}
		if !wait(ctx, drainEvery) {
			return fmt.Errorf("draining %s: %d tables are left, %w", one.Name, left, cmp.Or(err, ctx.Err()))
		}
	}
}

func (s *Site) drainOnce(ctx context.Context, body []byte) (int, error) {
	text, err := s.call(ctx, askMax, http.MethodPut, "/api/v1/captures/drain", body)
	if err != nil {
		return 0, err
	}
	var left struct {
		Tables *int `json:"current_table_count"`
	}
	if err := json.Unmarshal(text, &left); err != nil {
		return 0, err
	}
	if left.Tables == nil {
		return 0, fmt.Errorf("the answer %s lacks current_table_count", text)
	}
	return *left.Tables, nil
}

// move asks for tables to be moved to a capture, one after the other, and waits until
// it has them.
func (s *Site) move(ctx context.Context, tables []int64, to share) error {
	for _, id := range tables {
		body, err := json.Marshal(map[string]any{"capture_id": to.ID, "table_id": id})
		if err != nil {
			return err
		}
		if err := s.post(ctx, "/api/v1/changefeeds/"+feedName+"/tables/move_table", body); err != nil {
			return fmt.Errorf("moving table %d to %s: %w", id, to.Name, err)
		}
	}
	return s.until(ctx, fmt.Sprintf("%s has %d tables that were moved there", to.Name, len(tables)), func() error {
		all, err := s.shares(ctx)
		if err != nil {
			return err
		}
		for _, one := range all {
			if one.ID != to.ID {
				continue
			}
			for _, id := range tables {
				if !slices.Contains(one.Tables, id) {
					return fmt.Errorf("table %d is not there", id)
				}
			}
			return nil
		}
		return fmt.Errorf("capture %s is gone: %w", to.ID, errForGood)
	})
}
