package executors

import (
	"context"
	"errors"

	"github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"

	executorpb "github.com/autobot-fleet/autobot/executors/proto"
)

// ProtocolVersion is the newest version of the protocol that this package
// speaks. Host and executor agree on the newest one both know.
const ProtocolVersion = 1

// Environment variables that an executor process finds.
const (
	EnvConfig  = "AUTOBOT_EXECUTOR_CONFIG" // path of the JSON file with its settings
	EnvEngines = "AUTOBOT_ENGINES_DIR"     // folder with engines
	EnvFleet   = "AUTOBOT_FLEET_HOSTS"     // host:port,… of Redis and the control plane, which no task may reach
	envParent  = "AUTOBOT_PARENT_PID"      // the agent that started it
	envMark    = "AUTOBOT_EXECUTOR_RUN"    // unlike in every process; inherited by all it starts
	pluginName = "executor"
)

// handshake only tells a person who starts an executor by hand from an agent
// that does; mutual TLS keeps others out.
var handshake = plugin.HandshakeConfig{
	ProtocolVersion:  ProtocolVersion,
	MagicCookieKey:   "AUTOBOT_EXECUTOR_COOKIE",
	MagicCookieValue: "b2f1f1f0-autobot-executor",
}

// wirePlugin registers the service on the executor's side and returns its
// client on the host's side.
type wirePlugin struct {
	plugin.NetRPCUnsupportedPlugin
	server executorpb.ExecutorServer
}

func (p *wirePlugin) GRPCServer(_ *plugin.GRPCBroker, s *grpc.Server) error {
	if p.server == nil {
		return errors.New("no executor to serve")
	}
	executorpb.RegisterExecutorServer(s, p.server)
	return nil
}

func (p *wirePlugin) GRPCClient(_ context.Context, _ *plugin.GRPCBroker, conn *grpc.ClientConn) (any, error) {
	return executorpb.NewExecutorClient(conn), nil
}

// versions lists what is spoken. A later version is added beside the older
// one, so that an agent and its executors can be updated one after the other.
func versions(server executorpb.ExecutorServer) map[int]plugin.PluginSet {
	return map[int]plugin.PluginSet{
		ProtocolVersion: {pluginName: &wirePlugin{server: server}},
	}
}
