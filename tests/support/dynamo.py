"""NVIDIA Dynamo on the loopback: a front end, mocker engines, and a second front end for probes."""

import importlib.util
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.processes import answers, running, wait_until
from tests.support.target_traffic import free_port

MODEL = "m"
START_SECONDS = 40.0
PRINTABLE = [*range(33, 127), *range(161, 173), *range(174, 256)]


def is_installed() -> bool:
    """Returns whether front end, runtime and what they import are there."""
    needed = ("dynamo._core", "fastapi", "uvloop", "msgspec", "zmq")
    try:
        return all(importlib.util.find_spec(name) is not None for name in needed)
    except ModuleNotFoundError:
        return False


@dataclass
class DynamoWorker:
    """One mocker engine."""

    process: Process
    metrics: str
    """Address of its metrics page."""
    address: str = ""
    """HOST:PORT of its key."""
    id: str = ""

    def signal(self, number: int) -> None:
        """Sends a signal to the engine and its children."""
        os.killpg(self.process.pid, number)


@dataclass
class DynamoCluster:
    """A front end and its workers."""

    url: str
    folder: Path
    """Its DYN_FILE_KV."""
    canary_url: str
    canary_folder: Path
    workers: list[DynamoWorker] = field(default_factory=list)

    def keys(self) -> dict[str, str]:
        """Returns the address of each worker that has its key, by its id."""
        found = {}
        for file in (self.folder / "v1/instances").iterdir():
            text = file.read_text()
            if not text:  # it is being written
                continue
            data = json.loads(text)
            if data["endpoint"] == "generate":
                found[f"{data['instance_id']:x}"] = data["transport"]["tcp"].partition("/")[0]
        return found


def free_system_port() -> int:
    """Returns a port that nothing listens on, small enough for DYN_SYSTEM_PORT, which is a signed 16-bit number."""
    start = 20_000 + free_port() % 12_000
    for port in range(start, start + 500):
        with socket.socket() as sock:
            if sock.connect_ex(("127.0.0.1", port)):
                return port
    raise RuntimeError("no free port")


def write_model(folder: Path) -> None:
    """Writes a model of a byte-level tokenizer without merges: enough for engines that compute nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    others = [byte for byte in range(256) if byte not in PRINTABLE]
    tokens = ["<s>", "</s>", *map(chr, PRINTABLE), *(chr(256 + n) for n in range(len(others)))]
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    added = [{"id": n, "content": token, "special": True, **flags} for n, token in enumerate(tokens[:2])]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    unused = dict.fromkeys(("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"))
    vocabulary = {token: n for n, token in enumerate(tokens)}
    bpe = {"type": "BPE", **unused, "fuse_unk": False, "byte_fallback": False, "vocab": vocabulary, "merges": []}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None}
    tokenizer |= {"pre_tokenizer": level, "post_processor": None, "decoder": level, "model": bpe}
    ids = {"bos_token_id": 0, "eos_token_id": 1}
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 8192}
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": len(tokens), **ids, **shape}
    special = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    template = {"chat_template": "{% for m in messages %}{{ m['content'] }}{% endfor %}", "model_max_length": 8192}
    files = {"tokenizer": tokenizer, "config": config, "tokenizer_config": special | template, "generation_config": ids}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))


@asynccontextmanager
async def running_dynamo(folder: Path, speeds: tuple[float, ...] = (1.0, 1.0, 1.0)) -> AsyncIterator[DynamoCluster]:
    """Yields a cluster with a worker of each speed, once each has answered a request."""
    keys, canary_keys, model = folder / "keys", folder / "canary-keys", folder / "model"
    write_model(model)
    keys.mkdir()
    canary_keys.mkdir()
    plain = {"DYN_DISCOVERY_BACKEND": "file", "DYN_REQUEST_PLANE": "tcp", "DYN_EVENT_PLANE": "zmq"}
    plain |= {"DYN_SYSTEM_HOST": "127.0.0.1", "DYN_TCP_RPC_HOST": "127.0.0.1", "DYN_LOG": "warn"}
    python = [sys.executable, "-m"]
    engine = [*python, "dynamo.mocker", "--model-path", str(model), "--model-name", MODEL]
    async with AsyncExitStack() as stack:
        cluster = DynamoCluster("", keys, "", canary_keys)
        for n, speed in enumerate(speeds):
            port = free_system_port()
            environment = {**plain, "DYN_FILE_KV": str(keys), "DYN_SYSTEM_PORT": str(port)}
            command = [*engine, "--speedup-ratio", str(speed)]
            process = await stack.enter_async_context(running(command, folder / f"engine{n}.log", environment))
            cluster.workers.append(DynamoWorker(process, f"http://127.0.0.1:{port}/metrics"))
        for name, store in (("url", keys), ("canary_url", canary_keys)):
            port = free_port()
            where = ["--http-host", "127.0.0.1", "--http-port", str(port), "--router-mode", "round-robin"]
            environment = {**plain, "DYN_FILE_KV": str(store)}
            command = [*python, "dynamo.frontend", *where]
            await stack.enter_async_context(running(command, folder / f"{name}.log", environment))
            setattr(cluster, name, f"http://127.0.0.1:{port}")
        await _wait_for_all(cluster)
        yield cluster


async def _wait_for_all(cluster: DynamoCluster) -> None:
    async def has_all_keys() -> bool:
        return (cluster.folder / "v1/instances").is_dir() and len(cluster.keys()) == len(cluster.workers)

    listed = f'"{MODEL}"'.encode()
    await wait_until(has_all_keys, START_SECONDS, "keys of all workers")
    await wait_until(lambda: answers(f"{cluster.url}/v1/models", listed), START_SECONDS, "front end")
    await wait_until(lambda: answers(f"{cluster.canary_url}/v1/models"), START_SECONDS, "front end for probes")
    for id_, address in cluster.keys().items():
        for worker in cluster.workers:
            if await answers(worker.metrics, f'worker_id="{id_}"'.encode()):
                worker.address, worker.id = address, id_
    assert all(worker.address for worker in cluster.workers), cluster.workers


def stop(worker: DynamoWorker) -> None:
    """Ends a worker as by a crash."""
    worker.signal(signal.SIGKILL)
