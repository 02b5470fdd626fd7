package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/nats-io/nats.go"

	"github.com/toolwire/toolwire/agent"
	"github.com/toolwire/toolwire/dispatcher"
	"github.com/toolwire/toolwire/events"
	"github.com/toolwire/toolwire/toolkit"
	"github.com/toolwire/toolwire/workers"
)

// toolwire is the product as it runs: dispatcher, worker and agent, each on a connection of its own.
type toolwire struct {
	client  *agent.Client
	payload json.RawMessage
	cancel  context.CancelFunc
	running sync.WaitGroup
	stops   []func()
}

const benchTool events.ToolName = "bench_noop"

type noop struct {
	Text string `json:"text"`
}
