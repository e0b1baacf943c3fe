"""TensorFlow set up for a run, each time in a process of its own: what is asked of it, and in which order."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fake_driver import FakeDriver
from forked import run_forked

RUNTIME = Path(__file__).parents[3] / "runtime"

# Records what is asked of tf.config, and whether TensorFlow's runtime had been started by then.
CALLS = """
import json, logging, sys
import tensorflow as tf
from tensorflow.python.eager import context

calls = []
log = []

class Keep(logging.Handler):
    def emit(self, record):
        log.append(record.getMessage())

logging.getLogger("voxyard.trainer").addHandler(Keep())
logging.getLogger("voxyard.trainer").setLevel(logging.INFO)

def names(value):
    if isinstance(value, tf.config.LogicalDeviceConfiguration):
        return value.memory_limit
    if isinstance(value, list):
        return [names(one) for one in value]
    return getattr(value, "name", value)

def record(owner, name, answer):
    real = getattr(owner, name)
    def recorded(*args):
        calls.append([name, names(list(args)), bool(context.context()._initialized)])
        return answer(real, *args)
    setattr(owner, name, recorded)

gpus = [tf.config.PhysicalDevice(f"/physical_device:GPU:{i}", "GPU") for i in range(GPUS)]
limits = {}
visible = []

def physical(real, kind=None):
    return gpus if kind == "GPU" else real(kind)

def see(real, devices, kind=None):
    visible[:] = devices
    return None if kind == "GPU" else real(devices, kind)

def limit(real, device, wanted):
    limits[device.name] = wanted
    return None if device in gpus else real(device, wanted)

def start(real, kind=None):
    real("CPU")
    return visible if kind == "GPU" else real(kind)

record(tf.config, "list_physical_devices", physical)
record(tf.config, "set_visible_devices", see)
record(tf.config, "set_logical_device_configuration", limit)
record(tf.config, "get_logical_device_configuration", lambda real, device: limits.get(device.name))
record(tf.config.experimental, "set_memory_growth", lambda real, device, on: None)
record(tf.config, "list_logical_devices", start)
record(tf.config.threading, "set_intra_op_parallelism_threads", lambda real, n: real(n))
record(tf.config.threading, "set_inter_op_parallelism_threads", lambda real, n: real(n))
tf.test.is_built_with_cuda = lambda: True
"""

RECORD = f"""{CALLS}
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.tensorflow_setup import prepare_devices
from voxyard.trainer.errors import TrainerError
try:
    devices = prepare_devices(TrainConfig.model_validate(json.loads(sys.argv[1])))
    answer = {{"data": devices.data, "model": devices.model, "replicas": devices.replicas,
              "limits": dict(devices.limits), "batch_size": devices.batch_size}}
except TrainerError as error:
    answer = {{"error": str(error)}}
print(json.dumps({{"calls": calls, "log": log}} | answer))
"""

RECORD_FEATURES = f"""{CALLS}
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.api import prepare_features
prepare_features(TrainConfig.model_validate(json.loads(sys.argv[1])))
print(json.dumps({{"calls": calls}}))
"""

START = "list_logical_devices"
CONFIGURE = ("set_visible_devices", "set_logical_device_configuration", "set_memory_growth")


def run(code: str, environment: dict[str, str], *arguments: str) -> Any:
    done = run_forked(*arguments, source=code, environment=environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def recorded(driver: FakeDriver, config: dict[str, Any], *, count: int = 4, **host: Any) -> Any:
    gpus = [driver.gpu(f"{16 + i:02X}:00.0") for i in range(count)]
    code = RECORD.replace("GPUS", str(count))
    return run(code, driver.environment(gpus, **host), json.dumps(config))


def only(seen: Any, *kinds: str) -> list[Any]:
    return [call for call in seen["calls"] if call[0] in kinds]


def gpu(number: int) -> str:
    return f"/physical_device:GPU:{number}"


ISOLATED = {
    "data": {"data_gpu": 3, "model_gpu": 1},
    "training": {"enable_memory_isolation": True, "data_gpu_memory": 6000, "model_gpu_memory": 16000},
}


def test_limits_are_set_on_the_chosen_gpus_before_the_runtime_starts(driver: FakeDriver) -> None:
    """Every setting comes first, the runtime starts after it, and the limits are then read back."""
    seen = recorded(driver, ISOLATED)
    configured = only(seen, *CONFIGURE)
    assert [call[:2] for call in configured] == [
        ["set_visible_devices", [[gpu(1), gpu(3)], "GPU"]],
        ["set_logical_device_configuration", [gpu(3), [6000]]],
        ["set_logical_device_configuration", [gpu(1), [16000]]],
    ]
    order = [call[0] for call in seen["calls"]]
    start = order.index(START)
    assert not any(started for _, _, started in seen["calls"][: start + 1])
    assert not set(CONFIGURE) & set(order[start:])
    assert order[start + 1 :].count("get_logical_device_configuration") == 2
    assert seen["limits"] == {"data": 6000, "model": 16000}


def test_limits_and_growth_never_meet(driver: FakeDriver) -> None:
    """Isolation is limits only, its absence growth only."""
    assert not only(recorded(driver, ISOLATED), "set_memory_growth")
    growing = recorded(driver, {"data": {"data_gpu": 3, "model_gpu": 1}})
    assert not only(growing, "set_logical_device_configuration")
    assert [call[1] for call in only(growing, "set_memory_growth")] == [[gpu(3), True], [gpu(1), True]]


def test_the_log_names_devices_mapping_and_limits(driver: FakeDriver) -> None:
    """The whole log of two GPUs, in the order of the guides that users compare it with."""
    seen = recorded(driver, ISOLATED)
    assert [re.sub(r", GPU-[0-9a-f-]+", "", line) for line in seen["log"]] == [
        "Configuring Multi-GPU Mode...",
        "Intelligent GPU Pipeline: Multi-GPU Mode (strategy split)",
        "Data Processing GPU: GPU 3 (NVIDIA GeForce RTX 4090), /device:GPU:1 (Original GPU 3 is now mapped to GPU:1)",
        "  memory limit 6000 MiB",
        "Model Training GPU: GPU 1 (NVIDIA GeForce RTX 4090), /device:GPU:0 (Original GPU 1 is now mapped to GPU:0)",
        "  memory limit 16000 MiB",
        "Device policy: every copy between GPUs is explicit, none is silent",
        "Multi-GPU configuration completed successfully",
    ]


def test_without_ids_the_log_reports_single_and_growth(driver: FakeDriver) -> None:
    seen = recorded(driver, {})
    assert [re.sub(r", GPU-[0-9a-f-]+", "", line) for line in seen["log"]] == [
        "Configuring Single-GPU Buffered Mode...",
        "Intelligent GPU Pipeline: Single-GPU Buffered Mode (strategy single)",
        "Model Training GPU: GPU 0 (NVIDIA GeForce RTX 4090), /device:GPU:0",
        "  memory growth, no limit",
    ]
    assert (seen["data"], seen["model"], seen["batch_size"]) == ("/device:GPU:0", "/device:GPU:0", 16)


def test_devices_are_named_as_tensorflow_renumbers_them(driver: FakeDriver) -> None:
    """GPUs 1 and 3 become GPU:0 and GPU:1."""
    seen = recorded(driver, ISOLATED)
    assert (seen["data"], seen["model"]) == ("/device:GPU:1", "/device:GPU:0")
    assert recorded(driver, {"training": {"strategy": "mirrored"}})["replicas"] == [
        f"/device:GPU:{i}" for i in range(4)
    ]


def test_the_device_order_is_set_before_cuda_is_asked(driver: FakeDriver) -> None:
    """Our libcuda, as the real one, lists the GPUs otherwise unless CUDA_DEVICE_ORDER was set in time."""
    seen = recorded(driver, {"data": {"data_gpu": 0, "model_gpu": 1}}, CUDA_DEVICE_ORDER="FASTEST_FIRST")
    assert "error" not in seen


def test_a_cuda_that_counts_otherwise_is_an_error(driver: FakeDriver) -> None:
    """Both orders are shown, and nothing of TensorFlow has been touched."""
    seen = recorded(driver, {"data": {"data_gpu": 0, "model_gpu": 1}}, count=2, cuda=["11:00.0", "10:00.0"])
    assert "nvidia-smi (NVML): 0 = 00000000:10:00.0, 1 = 00000000:11:00.0" in seen["error"]
    assert "CUDA:              0 = 0000:11:00.0, 1 = 0000:10:00.0" in seen["error"]
    assert not seen["calls"]


def test_a_broken_driver_is_an_error_even_in_auto(driver: FakeDriver) -> None:
    """Never a silent fall-back to the CPU."""
    assert "Unknown Error" in recorded(driver, {}, nvml_init=999)["error"]
    assert "error" not in recorded(driver, {"training": {"device": "cpu"}}, nvml_init=999)


def test_gpus_that_tensorflow_cannot_use_are_an_error(driver: FakeDriver) -> None:
    code = RECORD.replace("GPUS", "0")
    seen = run(code, driver.environment([driver.gpu("10:00.0")]), "{}")
    assert "TensorFlow sees 0 GPUs where the driver has at least 1" in seen["error"]


@pytest.mark.parametrize(
    ("data", "chosen"), [({}, 0), ({"model_gpu": 2}, 2), ({"data_gpu": 3, "model_gpu": 1}, 3), ({"data_gpu": 1}, 1)]
)
def test_features_of_a_corpus_take_one_gpu_and_as_much_of_it_as_they_need(
    driver: FakeDriver, data: dict[str, int], chosen: int
) -> None:
    """`corpus prepare --features`, also beside a training on other GPUs; settings of a run are no obstacle."""
    isolated = {**ISOLATED["training"], "strategy": "mirrored", "auto": True}
    gpus = [driver.gpu(f"{16 + i:02X}:00.0") for i in range(4)]
    code = RECORD_FEATURES.replace("GPUS", "4")
    seen = run(code, driver.environment(gpus), json.dumps({"data": data, "training": isolated}))
    assert [call[:2] for call in only(seen, *CONFIGURE)] == [
        ["set_visible_devices", [[gpu(chosen)], "GPU"]],
        ["set_memory_growth", [gpu(chosen), True]],
    ]
    order = [call[0] for call in seen["calls"]]
    assert not any(started for _, _, started in seen["calls"][: order.index(START) + 1])


# -- real CPU devices ----------------------------------------------------------------------------------------

REAL = """
import json, sys
from voxyard.trainer.config import TrainConfig
from voxyard.trainer.devices.tensorflow_setup import prepare_devices
from voxyard.trainer.errors import TrainerError
def ready(config):
    return prepare_devices(TrainConfig.model_validate(config))
"""


def plain(**more: str) -> dict[str, str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith("VOXYARD_")}
    return clean | {"PYTHONPATH": str(RUNTIME), "TF_CPP_MIN_LOG_LEVEL": "2"} | more


@pytest.mark.parametrize(("count", "data", "model"), [(2, 0, 1), (4, 2, 3)])
def test_operations_run_on_the_named_cpu_devices(count: int, data: int, model: int) -> None:
    """On logical CPU devices, with TensorFlow's own word on where each tensor lives."""
    code = (
        REAL
        + f"""
devices = ready({{"data": {{"data_gpu": {data}, "model_gpu": {model}}},
                 "training": {{"device": "cpu", "cpu_devices": {count}, "device_threads": 1}}}})
import tensorflow as tf
placed = []
for name in (devices.data, devices.model):
    with tf.device(name):
        placed.append(tf.function(lambda x: x * 2.0)(tf.constant(1.0)).device)
print(json.dumps([placed, len(tf.config.list_logical_devices("CPU")),
                  tf.config.threading.get_intra_op_parallelism_threads()]))
"""
    )
    placed, made, threads = run(code, plain())
    assert placed[0].endswith(f"device:CPU:{data}")
    assert placed[1].endswith(f"device:CPU:{model}")
    assert (made, threads) == (count, 1)


def test_a_cpu_device_of_a_split_keeps_to_one_thread() -> None:
    """With one thread a device, independent branches of a graph do not take the other device's core.

    The share of the busiest thread in one call's CPU time; the machine's load does not change it.
    """
    code = (
        REAL
        + """
from pathlib import Path
devices = ready({"data": {"data_gpu": 0, "model_gpu": 1}, "training": {"device": "cpu", "device_threads": 1}})
import tensorflow as tf
from voxyard.trainer.devices.tensorflow_setup import executor_scope

@tf.function(autograph=False)
def branches(x):  # two chains that do not wait for each other
    a = b = x
    for _ in range(20):
        a, b = tf.tanh(a @ x), tf.tanh(x @ b)
    return a + b

def times():
    return {task.name: int((task / "schedstat").read_text().split()[0]) for task in Path("/proc/self/task").iterdir()}

def busiest(x):
    branches(x)
    before = times()
    branches(x)
    used = [after - before.get(name, 0) for name, after in times().items()]
    return max(used) / sum(used)

with tf.device(devices.model):
    x = tf.random.normal([600, 600])
    spread = busiest(x)
    with executor_scope(devices):
        print(json.dumps([spread, busiest(x)]))
"""
    )
    spread, kept = run(code, plain())
    assert kept > 0.95
    assert spread < 0.8


def test_each_cpu_device_has_threads_of_its_own() -> None:
    """A thread more per device is a thread more for each of both, not one for them to share."""
    code = (
        REAL
        + """
from pathlib import Path
devices = ready({"data": {"data_gpu": 0, "model_gpu": 1},
                 "training": {"device": "cpu", "device_threads": int(sys.argv[1])}})
import tensorflow as tf
for name in (devices.data, devices.model):
    with tf.device(name):
        tf.random.normal([400, 400]) @ tf.random.normal([400, 400])
print(len(list(Path("/proc/self/task").iterdir())))
"""
    )
    assert run(code, plain(), "4") - run(code, plain(), "3") == 2


@pytest.mark.parametrize("data", [{}, {"data_gpu": 0, "model_gpu": 1}], ids=["one device", "split"])
def test_cpu_devices_keep_the_graph_optimizer_out(data: dict[str, int]) -> None:
    """Of sums it makes variables, which a split's executor refuses, and whose order is another in each run."""
    code = (
        REAL
        + f"""
ready({{"data": {data}, "training": {{"device": "cpu"}}}})
import tensorflow as tf
print(json.dumps(tf.config.optimizer.get_experimental_options().get("disable_meta_optimizer", False)))
"""
    )
    assert run(code, plain()) is True


def test_a_runtime_that_already_runs_is_refused() -> None:
    """After the start it is too late."""
    code = (
        REAL
        + """
import tensorflow as tf
tf.constant(1.0) + 1.0
try:
    ready({"training": {"device": "cpu"}})
    print(json.dumps("prepared"))
except TrainerError as error:
    print(json.dumps(str(error)))
"""
    )
    assert "already started" in run(code, plain())


def test_a_second_run_in_one_process_needs_the_same_devices() -> None:
    """Train() twice in a notebook works; other devices need another process."""
    code = (
        REAL
        + """
split = {"data": {"data_gpu": 0, "model_gpu": 1}, "training": {"device": "cpu", "device_threads": 1}}
ready(split)
again = ready(split).model
try:
    ready(split | {"training": {"device": "cpu", "cpu_devices": 3}})
    print(json.dumps("prepared"))
except TrainerError as error:
    print(json.dumps([again, str(error)]))
"""
    )
    again, refused = run(code, plain())
    assert again == "/device:CPU:1"
    assert "start a new process" in refused


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backend", "file"),
    [
        pytest.param("jax", None, id="KERAS_BACKEND"),
        pytest.param(None, '{"backend": "torch", "floatx": "float16", "epsilon": 0.1}', id="keras.json"),
        pytest.param(None, '{"image_data_format": "channels_first"}', id="order of channels"),
        pytest.param(None, '{"floatx":', id="cut in half"),
    ],
)
def test_keras_is_as_voxyard_needs_it(tmp_path: Path, backend: str | None, file: str | None) -> None:
    """Whatever other projects of the user's have set for theirs."""
    if file is not None:
        (tmp_path / "keras.json").write_text(file)
    code = """
from voxyard.trainer.devices.tensorflow_import import import_tensorflow
import_tensorflow()
import keras
print(keras.backend.backend(), keras.config.floatx(), keras.config.epsilon(), keras.config.image_data_format())
"""
    environment = plain(KERAS_HOME=str(tmp_path)) | ({} if backend is None else {"KERAS_BACKEND": backend})
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert done.stdout == "tensorflow float32 1e-07 channels_last\n", done.stderr
