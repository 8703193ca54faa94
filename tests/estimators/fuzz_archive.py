"""Manipulates saved models at random, loads them and predicts with them.

Run by test_archive_fuzz.py, and by hand:

python tests/estimators/fuzz_archive.py fit FOLDER
python tests/estimators/fuzz_archive.py run FOLDER SEED FIRST LAST

The second command writes a line for each mutation before it is loaded, so the last line names a mutation that
killed the process. At the end it writes the number of mutations of each outcome.
"""

import copy
import json
import re
import signal
import sys
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
from safetensors import safe_open
from safetensors.numpy import save

from stablemiss import (
    AnyMaskClassifier,
    AnyMaskRegressor,
    MissingClassifier,
    MissingRegressor,
    StableMissRegressor,
    load_model,
)
from stablemiss.architectures import CNN
from stablemiss.encoding import ArrayEncoder
from stablemiss.estimators.archive import FORMAT, FORMAT_VERSION, ArchiveError, checksum
from stablemiss.methods import METHODS

# What loading and predicting may need.
MAX_MEGABYTES, MAX_SECONDS = 200, 5
# What is stored does not depend on how long a method was trained.
BRIEF = {
    "max_epochs": 2,
    "steps": 40,
    "n_trees": 8,
    "budget": "fast",
    "max_components": 2,
    "n_permutations": 1,
}
NUMBERS = [0, 1, 2, 3, -1, -2, 7, 10**4, 2**31 - 1, 2**31, 10**9, 2**63, -(2**63), 10**30, 10**400]
NUMBERS += [0.5, -0.0, 1e-320, 1e308, -1e308, 3.5]
VALUES = [*NUMBERS, None, True, False, "", "x", "1", "nan", "x" * 5000, [], {}, [[]], {"dict": {}}]
VALUES += [{"float": "nan"}, {"float": "inf"}, {"float": "1"}, {"tuple": []}, {"text": "0"}, {"array": "0"}]
VALUES += [{"array": "1"}, {"array": "999"}, {"columnwise": "1"}, {"array": 1}, {"unknown": 1}]
VALUES += [{"objects": {"dtype": f"<U{n}", "shape": [1], "items": ["a"]}} for n in (0, 1, 10**6, 5 * 10**8)]
VALUES += [{"objects": {"dtype": "|O", "shape": [n], "items": [None, "a"]}} for n in (2, -2, 10**12)]
TOKENS = ["0", "1", "-1", "-2", "2", "30", "-30", "1000000000", "-1000000000", "2147483648", "9" * 20, "nan"]
TOKENS += ["inf", "-inf", "1e999", "1e308", "-1e308", "x", "", "0.5", "1e-400", " ", "é", "\0", "0x10", "1_0"]
LINES = ["is_linear=1", "num_cat=1", "cat_boundaries=0 1", "average_output", "leaf_const=1", "", "\0"]
TENSOR_ACTIONS = ["entry"] * 3 + ["all", "scale", "shape", "dtype", "swap", "extra", "remove", "shuffle"]
TEXT_ACTIONS = ["token"] * 8 + ["value", "remove", "double", "swap", "cut", "insert"]
TOKEN_ACTIONS = ["set"] * 3 + ["all", "drop", "add", "swap"]
FLOATS = [np.nan, np.inf, -np.inf, 0, -1, 1e300, 1e-300, 1e30, 1e6, -3]
INTEGERS = [0, -1, 1, 7, 10**6, 2**62, -(2**63)]
DTYPES = [np.float16, np.float32, np.float64, np.int8, np.int64, np.bool_]


def table(n, seed):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    y = X["a"] - 2 * X["b"] + 0.3 * rng.normal(size=n)
    X["town"] = rng.choice([f"town {i}" for i in range(15)], size=n)
    X["kind"] = rng.choice(["x", "y", "z"], size=n)
    X["sold"] = [f"2020-{1 + i % 12:02}-{1 + i % 28:02}" for i in range(n)]
    for column in X:
        X.loc[rng.uniform(size=n) < 0.2, column] = None
    return X, y.to_numpy()


def fit(folder):
    """Save a regressor and a classifier with every method, AnyMask estimators, and models of images."""
    X, y = table(90, seed=0)
    labels = np.array(["low", "mid", "high"])[np.digitize(y, [-1, 1])]
    models = {}
    for name, method in METHODS.items():
        params = {key: value for key, value in BRIEF.items() if key in method().get_params()}
        models[f"{name}-numbers"] = MissingRegressor(name, params=params, random_state=0).fit(X, y)
        # Two classes differ from three only in the text of LightGBM.
        target = y > 0 if name == "boosting" else labels
        models[f"{name}-classes"] = MissingClassifier(name, params=params, random_state=0).fit(X, target)
    two = np.column_stack([y, y**2])
    models["regressor"] = AnyMaskRegressor(
        budget="fast", never_missing=["b"], keep_training_rows=True, random_state=0
    )
    models["regressor"].fit(X.assign(b=X["b"].fillna(0)), two)
    models["classifier"] = AnyMaskClassifier(budget="fast", random_state=0).fit(X, labels)
    images = np.random.default_rng(0).normal(size=(90, 6, 5))
    for generate in ("global", "local"):
        architecture = CNN(channels=(3, 3, 3), generate=generate, rank=2)
        models[f"images-{generate}"] = StableMissRegressor(architecture, max_epochs=1, random_state=0)
        models[f"images-{generate}"].fit(images, images)
    for name, model in models.items():
        model.save(folder / name)


def read(path):
    """Document and tensors of a model file."""
    with safe_open(path, framework="numpy") as file:
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        return file.metadata()["document"], tensors


def write(path, document, tensors):
    """Write a model file whose checksum is correct."""
    header = {
        "format": FORMAT,
        "format_version": str(FORMAT_VERSION),
        "document": document,
        "sha256": checksum(FORMAT_VERSION, document, tensors),
    }
    path.write_bytes(save(tensors, metadata=header))


def nodes(tree):
    """All containers of a JSON document, and the keys of their entries."""
    items = enumerate(tree) if isinstance(tree, list) else tree.items() if isinstance(tree, dict) else ()
    for key, item in list(items):
        yield tree, key
        yield from nodes(item)


class Mutator:
    """Random mutations; each method returns a description."""

    def __init__(self, rng):
        self.rng = rng

    def choose(self, items):
        return items[self.rng.integers(len(items))]

    def document(self, tree, tensors):
        """Change one entry of the JSON document."""
        places = list(nodes(tree))
        # Tables of categories are long, so half of the time a number or the name of a type is chosen.
        numbers = [(c, k) for c, k in places if isinstance(c[k], int | float) or k in ("dtype", "array")]
        container, key = self.choose(numbers if self.rng.random() < 0.5 and numbers else places)
        old = container[key]
        actions = ["replace", "delete", "double", "swap"]
        actions += ["number"] * 3 if isinstance(old, int | float) else []
        action = self.choose(actions)
        if action == "number":
            container[key] = self.choose([old + 1, old - 1, -old, 2 * old, 1000 * old, *NUMBERS])
            action = f"to {container[key]!s:.40}"
        elif action == "replace":
            container[key] = copy.deepcopy(self.choose(VALUES))
            action = f"to {container[key]!s:.40}"
        elif action == "delete":
            del container[key]
        elif action == "swap":
            other_container, other_key = self.choose(places)
            container[key], other_container[other_key] = other_container[other_key], old
            action = f"swap with {other_key!r}"
        elif isinstance(container, list):
            container.append(copy.deepcopy(old))
        else:
            container[f"{key}x"] = copy.deepcopy(old)
        return f"document {key!r} {old!s:.40} {action}"

    def tensor(self, tree, tensors):
        """Change one tensor."""
        name, action = self.choose(list(tensors)), self.choose(TENSOR_ACTIONS)
        array = tensors[name].copy()
        with np.errstate(all="ignore"):
            if action in ("entry", "all") and array.size and array.dtype.kind in "fi":
                number = self.choose(FLOATS if array.dtype.kind == "f" else INTEGERS)
                array.flat[slice(None) if action == "all" else self.rng.integers(array.size)] = number
                action += f" {number}"
            elif action == "scale" and array.dtype.kind == "f":
                array *= self.choose([-1, 1e10, 1e37, 0, 1e-30])
            elif action == "shape" and array.ndim:
                array = self.choose([array[:-1], array[:0], array[None], array.ravel(), array.T])
            elif action == "dtype":
                array = array.astype(self.choose(DTYPES))
            elif action == "shuffle":
                array = self.rng.permutation(array.ravel()).reshape(array.shape)
            elif action == "swap":
                other = self.choose(list(tensors))
                tensors[other], array = array, tensors[other]
            elif action == "extra":
                tensors["extra"] = np.zeros(3)
        tensors[name] = np.ascontiguousarray(array)
        if action == "remove":
            del tensors[name]
        return f"tensor {name} {action} {array.dtype}{array.shape}"

    def lightgbm(self, tree, tensors):
        """Change the text of one LightGBM model; another tensor if there is none."""
        texts = [name for name, array in tensors.items() if array.tobytes().startswith(b"tree\n")]
        if not texts:
            return self.tensor(tree, tensors)
        name, action = self.choose(texts), self.choose(TEXT_ACTIONS)
        text = tensors[name].tobytes().decode()
        if self.rng.random() < 0.5:
            # Without this line LightGBM reads the trees one after the other, and finds those that were moved.
            text = re.sub(r"tree_sizes=.*\n", "", text)
        # Usually only trees are changed, and not what follows them.
        end = text.find("end of trees") if self.rng.random() < 0.9 else len(text)
        lines = text[:end].split("\n")
        entries = [number for number, line in enumerate(lines) if "=" in line]
        i, j = self.rng.integers(len(lines), size=2)
        if action in ("token", "value"):
            i, j = self.choose(entries), self.choose(entries)
            key = lines[i].partition("=")[0]
            tokens = lines[i if action == "token" else j].partition("=")[2].split(" ")
            if action == "token":
                action = self.change_tokens(tokens)
            lines[i] = f"{key}={' '.join(tokens)}"
            action += f" of {key}"
        elif action == "remove":
            action += f" {lines.pop(i):.40}"
        elif action == "double":
            lines.insert(i, lines[i])
        elif action == "swap":
            lines[i], lines[j] = lines[j], lines[i]
        elif action == "cut":
            lines = lines[: i + 1]
        else:
            lines.insert(i, self.choose(LINES))
        text = "\n".join(lines) + text[end:]
        tensors[name] = np.frombuffer(text.encode(), dtype=np.uint8)
        return f"text {name} line {i}: {action}"

    def change_tokens(self, tokens):
        """Change the numbers of one line of a text."""
        action, token = self.choose(TOKEN_ACTIONS), self.choose(TOKENS)
        i, j = self.rng.integers(len(tokens), size=2)
        if action == "set":
            tokens[i] = token
        elif action == "all":
            tokens[:] = [token] * len(tokens)
        elif action == "drop":
            del tokens[i]
        elif action == "add":
            tokens.insert(i, token)
        else:
            tokens[i], tokens[j] = tokens[j], tokens[i]
        return f"{action} {token!r}"


def mutate(document, tensors, rng):
    """A manipulated document and tensors, and a description."""
    mutator, tree, tensors = Mutator(rng), json.loads(document), dict(tensors)
    kinds = [mutator.document, mutator.tensor, mutator.lightgbm]
    # Several mutations may hide each other, but some effects need two.
    n_mutations = 1 + (rng.random() < 0.15)
    done = [kinds[rng.integers(3)](tree, tensors) for _ in range(n_mutations)]
    document = json.dumps(tree)
    if rng.random() < 0.03:
        position = rng.integers(len(document))
        document = (
            document[:position] + mutator.choose(list('0129-.eE[]{},:"\\n ')) + document[position + 1 :]
        )
        done.append(f"character {position}")
    return document, tensors, "; ".join(done)


def use(model, X):
    """Call all methods that predict, and return whether all numbers are finite."""
    if isinstance(model.encoder_, ArrayEncoder):
        X = np.random.default_rng(1).normal(size=(4, *model.encoder_.shape))
        X[0] = np.nan
    outputs = [model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X)]
    if isinstance(model, AnyMaskRegressor | AnyMaskClassifier):
        for name in ("predict_interval", "predict_set"):
            outputs += [getattr(model, name)(X)] if hasattr(model, name) else []
        explanation = dict(model.explain_missing(X))
        outputs += [explanation[name] for name in ("error", "error_if_complete")]
    model.predict(X)
    return all(np.isfinite(np.asarray(output, dtype=float)).all() for output in outputs)


def peak_memory():
    """Largest memory that this process has used since the peak was reset, in megabytes."""
    status = Path("/proc/self/status").read_text()
    return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024


def run(folder, seed, first, last):
    """Load the mutations `first` to `last`; write each before it is loaded, and the outcomes at the end."""
    warnings.simplefilter("ignore")
    originals = {path.name: read(path) for path in sorted(folder.iterdir()) if path.is_file()}
    X, _ = table(4, seed=1)
    X.iloc[0] = None
    for name in originals:
        assert use(load_model(folder / name), X), name
    path = folder / f"mutations-{seed}-{first}" / "model"
    path.parent.mkdir()
    outcomes = Counter()
    for number in range(first, last):
        rng = np.random.default_rng([seed, number])
        name = list(originals)[rng.integers(len(originals))]
        document, tensors, description = mutate(*originals[name], rng)
        sys.stdout.write(f"{number} {name}: {description}\n")
        sys.stdout.flush()
        write(path, document, tensors)
        outcome = load_and_use(path, X)
        known = outcome in ("ArchiveError", "finite", "not finite")
        outcomes[outcome if known else f"{outcome} at {number} {name}: {description}"] += 1
    sys.stdout.write(json.dumps(outcomes) + "\n")


def load_and_use(path, X):
    """What happens when the model at `path` is loaded and used: "ArchiveError", "finite", …"""
    # Resets the peak to the current memory.
    Path("/proc/self/clear_refs").write_text("5")
    memory = peak_memory()
    # Ends the process.
    signal.alarm(MAX_SECONDS)
    try:
        outcome = "finite" if use(load_model(path), X) else "not finite"
    except ArchiveError:
        outcome = "ArchiveError"
    except Exception as error:
        outcome = repr(error)
    signal.alarm(0)
    memory = peak_memory() - memory
    return outcome if memory < MAX_MEGABYTES else f"{memory:.0f} MB"


if __name__ == "__main__":
    command, folder, *numbers = sys.argv[1:]
    if command == "fit":
        fit(Path(folder))
    else:
        run(Path(folder), *map(int, numbers))
