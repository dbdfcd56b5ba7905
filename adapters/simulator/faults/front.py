"""Faults between clients and replicas."""

from skewscope.adapters.simulator.faults.registry import SERVING, Target, alike, fault, prefer, spare
from skewscope.adapters.simulator.push import Push
from skewscope.adapters.simulator.world import World

FRONT = 25e9


@fault("burst-admission-backlog", "pool", SERVING)
def burst(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Far more requests than the replicas of a pool can take in."""
    p.arrivals[alike(w.fleet, at.job)] *= 6 + 10 * strength


@fault("ingress-starvation", "front", SERVING)
def starved(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """A step before it stalls: what was meant for it does not come."""
    p.arrivals[at.job] *= 0.35 * (1 - strength)


@fault("flow-session-skew", "front", ("tp", "pp"))
def sticky(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Sessions are tied to one replica, and a few connections carry them."""
    prefer(p, w, at, 1 + 5 * strength)
    p.hot_flow[at.node, 0] += 0.3 + 0.4 * strength


@fault("ingress-loss", "front", SERVING)
def lost_in(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """Requests are dropped on the way in, in the host's stack."""
    p.loss_in[at.node, 0] += 0.02 + 0.08 * strength
    p.drops[at.node] += 0.5 * (0.02 + 0.08 * strength) * w.net.rx_packets[at.node, 0]


@fault("egress-loss", "front", SERVING)
def lost_out(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """Tokens are lost on the way to clients."""
    p.loss_out[at.node, 0] += 0.01 + 0.07 * strength


@fault("egress-jitter", "front", SERVING)
def jitter(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """The way to clients takes another time for each packet."""
    p.queue[at.node, 0] += w.random.exponential(0.01 + 0.05 * strength)


@fault("egress-backlog", "front", SERVING)
def backed_up(p: Push, _w: World, at: Target, strength: float, age: float) -> None:
    """The send queue grows: the way out is too slow for what is made."""
    p.egress[at.job] += min(0.2 * age, 1.0) * (0.5 + 1.5 * strength)
    p.queue[at.node, 0] += min(0.05 * age, 1.0) * (0.3 + 1.5 * strength)


@fault("edge-saturation", "front", SERVING)
def edge_full(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """A bulk transfer fills the front-end link."""
    p.other_out[at.node, 0] += FRONT * (0.94 + 0.06 * strength)
    p.other_in[at.node, 0] += FRONT * 0.1
    p.queue[at.node, 0] += 0.001 + 0.01 * strength * w.random.random()
    p.hot_flow[at.node, 0] += 0.5


@fault("retry-storm", "pool", SERVING)
def retries(p: Push, w: World, at: Target, strength: float, age: float) -> None:
    """Clients give up and ask again; what is made for those who left is thrown away."""
    pool, times = alike(w.fleet, at.job), 1 + (2 + 4 * strength) * min(age / 10, 1.0)
    p.arrivals[pool] *= times
    if age < 1:
        # What set it off is gone: the queue that it left is longer than clients wait.
        w.serving.waiting[pool] += 60 + 60 * strength
    # Nobody gets more than one answer, however often he asks.
    p.left[pool] = 1 - (0.7 - 0.4 * strength) / times


@fault("early-completion-skew", "job", SERVING)
def few_left(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """Most answers end soon while a few go on, and free places are not filled."""
    p.output[at.job] *= 1 - 0.6 * strength
    p.admitting[at.job] *= 0.05


@fault("engine-connection-liveness", "job", SERVING)
def dead_engine(p: Push, _w: World, at: Target, _strength: float, _age: float) -> None:
    """The engine hangs; its connections stay."""
    p.halted[at.job] = 1.0
    p.admitting[at.job] = 0.0


@fault("tenant-unfairness", "job", SERVING)
def greedy(p: Push, _w: World, at: Target, strength: float, _age: float) -> None:
    """One tenant's long prompts over few connections take the engine."""
    p.prompt[at.job] *= 7 + 6 * strength
    p.hot_flow[at.node, 0] += 0.4 + 0.3 * strength


@fault("weights-cold-start", "job", SERVING)
def loading(p: Push, w: World, at: Target, strength: float, _age: float) -> None:
    """A new replica reads its weights before it can serve."""
    w.serving.running[at.job] = w.serving.waiting[at.job] = 0.0
    p.admitting[at.job] = 0.0
    p.halted[at.job] = 1.0
    spare(p, w, at.job)
    nodes = list(w.fleet.jobs[at.job].nodes)
    p.other_in[nodes, 0] += FRONT * (0.4 + 0.4 * strength)
    p.wait_io[nodes] += 0.3 + 0.3 * strength
    p.pcie_in[nodes] += FRONT * 0.4 / 8
