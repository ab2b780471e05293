"""Runs an ONNX model for `passhost bench`: reads commands from standard input, and answers each with a line of JSON."""

import json
import sys
import time


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def main() -> None:
    asked = json.loads(sys.argv[1])
    try:
        import numpy
        import onnxruntime
    except ImportError as error:
        say(missing=error.name, error=str(error))
        return
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = asked["threads"]
    options.inter_op_num_threads = 1
    # Threads that spin after a run would slow down the following runs of passhost.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    options.log_severity_level = 3
    start = time.perf_counter()
    session = onnxruntime.InferenceSession(asked["model"], options, providers=["CPUExecutionProvider"])
    loaded = time.perf_counter() - start
    feeds = {}
    inputs = session.get_inputs()
    if len(inputs) != len(asked["inputs"]):
        raise ValueError(f"the model has {len(inputs)} inputs, but {len(asked['inputs'])} were given")
    for array, own in zip(asked["inputs"], inputs):
        data = numpy.fromfile(asked["data"], array["dtype"], array["count"], offset=array["offset"])
        feeds[array["name"] or own.name] = data.reshape(array["shape"])
    say(version=onnxruntime.__version__, seconds=loaded, outputs=len(session.get_outputs()))
    outputs: list = []
    for line in sys.stdin:
        command, argument = line.split()
        if command == "run":
            seconds = []
            for _ in range(int(argument)):
                start = time.perf_counter()
                outputs = session.run(None, feeds)
                seconds.append(time.perf_counter() - start)
            say(seconds=seconds)
        else:
            with open(asked["outputs"], "wb") as file:
                file.writelines(numpy.ascontiguousarray(output).tobytes() for output in outputs)
            say(outputs=[{"dtype": str(output.dtype), "shape": list(output.shape)} for output in outputs])


try:
    main()
except Exception as error:  # noqa: BLE001 (whatever it is, passhost reports it)
    say(error=f"{type(error).__name__}: {error}")
