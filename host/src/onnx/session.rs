//! A process with onnxruntime, which runs a model on request.

use super::graph::{External, NotWritten, Param, no_counterpart, written};
use passhost_lang::ir::Function;
use runtime::Tensor;
use runtime::vm::Value;
use serde_json::{Value as Json, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Environment variable for the Python program in which onnxruntime is installed.
pub(crate) const VARIABLE: &str = "PASSHOST_PYTHON";
const USUAL: &str = "python3";
const SCRIPT: &str = include_str!("serve.py");
/// Alignment of the data in its file, because onnxruntime maps whole pages.
const PAGE: u64 = 4096;

/// The reason why onnxruntime cannot run a function.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionError {
    /// The function cannot be written as a model.
    #[error(transparent)]
    NotWritten(#[from] NotWritten),
    /// The Python program cannot be started.
    #[error("{} cannot be started: {error}", program.display())]
    NoPython {
        /// The Python program.
        program: OsString,
        /// The reason.
        error: io::Error,
    },
    /// A Python module is missing, or cannot be used.
    #[error("{} does not have the module `{module}`: {message}", program.display())]
    Missing {
        /// The Python program.
        program: OsString,
        /// The module.
        module: String,
        /// The message of Python.
        message: String,
    },
    /// onnxruntime refused the model or its inputs, or its process ended.
    #[error("onnxruntime failed: {0}")]
    Failed(String),
    /// A file or pipe failed.
    #[error("cannot write the files for onnxruntime: {0}")]
    Io(#[from] io::Error),
}

/// A model in an onnxruntime process of its own.
pub(crate) struct Session {
    child: Child,
    /// The input of the process. Closing it makes the process end, so it is closed before waiting for the process.
    commands: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    folder: TempDir,
    outputs: usize,
    /// The version of onnxruntime.
    pub(crate) version: String,
    /// Time to load and optimize the model.
    pub(crate) loaded: Duration,
}

impl Session {
    /// Starts onnxruntime with a function and its arguments. Arguments from `constants` on are constants of the model, which onnxruntime may
    /// preprocess; the others are inputs.
    ///
    /// # Errors
    /// If the function cannot be written as a model, or onnxruntime is not installed.
    pub(crate) fn start(
        function: Function<'_>,
        args: &[Value],
        constants: usize,
        threads: usize,
    ) -> Result<Session, SessionError> {
        let (folder, tensors) = (TempDir::new()?, tensors(args)?);
        let offsets = write_data(&folder, &tensors)?;
        let param = |(i, (tensor, offset)): (usize, (&&Tensor, &u64))| {
            let data = External { file: "data".to_string(), offset: *offset, length: tensor.nbytes() as u64 };
            Param { dtype: tensor.dtype(), shape: tensor.shape().to_vec(), constant: (i >= constants).then_some(data) }
        };
        let params: Vec<Param> = tensors.iter().zip(&offsets).enumerate().map(param).collect();
        let model = written(function, &params)?;
        let path = folder.path().join("model.onnx");
        std::fs::write(&path, &model.bytes)?;
        let inputs: Vec<Json> =
            model.inputs.iter().map(|(i, name)| described(tensors[*i], offsets[*i], Some(name))).collect();
        Session::of(folder, &path, &inputs, threads)
    }

    /// Starts onnxruntime with a model in a file, whose inputs get these arguments in order.
    ///
    /// # Errors
    /// If onnxruntime refuses the model or the arguments, or is not installed.
    pub(crate) fn of_file(model: &Path, args: &[Value], threads: usize) -> Result<Session, SessionError> {
        let (folder, tensors) = (TempDir::new()?, tensors(args)?);
        let offsets = write_data(&folder, &tensors)?;
        let inputs: Vec<Json> =
            tensors.iter().zip(&offsets).map(|(tensor, offset)| described(tensor, *offset, None)).collect();
        Session::of(folder, model, &inputs, threads)
    }

    fn of(folder: TempDir, model: &Path, inputs: &[Json], threads: usize) -> Result<Session, SessionError> {
        let path = |name: &str| folder.path().join(name).display().to_string();
        let asked = json!({
            "model": model.display().to_string(), "data": path("data"), "outputs": path("outputs"), "inputs": inputs,
            "threads": threads,
        });
        let program = std::env::var_os(VARIABLE).unwrap_or_else(|| USUAL.into());
        let mut command = Command::new(&program);
        command.args(["-c", SCRIPT]).arg(asked.to_string());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(File::create(folder.path().join("errors"))?);
        let mut child = command.spawn().map_err(|error| SessionError::NoPython { program: program.clone(), error })?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (commands, answers) = pipes.ok_or_else(|| io::Error::other("no pipes"))?;
        let (commands, answers) = (Some(commands), BufReader::new(answers));
        let (version, loaded) = (String::new(), Duration::ZERO);
        let mut session = Session { child, commands, answers, folder, outputs: 0, version, loaded };
        let begun = session.answer().map_err(|answer| match answer["missing"].as_str() {
            Some(module) => SessionError::Missing { program, module: module.to_string(), message: said(&answer) },
            None => SessionError::Failed(said(&answer)),
        })?;
        session.outputs = begun["outputs"].as_u64().and_then(|n| usize::try_from(n).ok()).unwrap_or_default();
        session.version = begun["version"].as_str().unwrap_or_default().to_string();
        session.loaded = Duration::from_secs_f64(begun["seconds"].as_f64().unwrap_or_default());
        Ok(session)
    }

    /// Runs the model `times` times, and returns the time of each run.
    ///
    /// # Errors
    /// If a run fails.
    pub(crate) fn run(&mut self, times: usize) -> Result<Vec<Duration>, SessionError> {
        let answer = self.ask(&format!("run {times}\n"))?;
        let seconds = answer["seconds"].as_array().into_iter().flatten();
        Ok(seconds.filter_map(|one| Some(Duration::from_secs_f64(one.as_f64()?))).collect())
    }

    /// Returns the results of the last run.
    ///
    /// # Errors
    /// If they cannot be read.
    pub(crate) fn outputs(&mut self) -> Result<Vec<Tensor>, SessionError> {
        let answer = self.ask("write outputs\n")?;
        let wrong = |what: &str| SessionError::Failed(format!("{what} of an output: {answer}"));
        let mut file = BufReader::new(File::open(self.folder.path().join("outputs"))?);
        let mut outputs = Vec::with_capacity(self.outputs);
        for described in answer["outputs"].as_array().into_iter().flatten() {
            let dtype = described["dtype"].as_str().and_then(|name| name.parse().ok());
            let dtype = dtype.ok_or_else(|| wrong("the data type"))?;
            let shape: Option<Vec<i64>> =
                described["shape"].as_array().and_then(|dims| dims.iter().map(Json::as_i64).collect());
            let shape = shape.ok_or_else(|| wrong("the shape"))?;
            let size = runtime::tensor::size_of(dtype, &shape).ok_or_else(|| wrong("the size"))?;
            let mut bytes = vec![0; size as usize];
            file.read_exact(&mut bytes)?;
            outputs.push(Tensor::new(dtype, &shape, &bytes).map_err(|fault| wrong(&fault.to_string()))?);
        }
        match outputs.len() == self.outputs {
            true => Ok(outputs),
            false => Err(wrong("the number")),
        }
    }

    fn ask(&mut self, command: &str) -> Result<Json, SessionError> {
        // If the process has ended, reading the answer fails.
        let _ = self.commands.as_mut().map(|commands| commands.write_all(command.as_bytes()));
        self.answer().map_err(|answer| SessionError::Failed(said(&answer)))
    }

    /// Reads the next answer. Returns an error if the answer contains one, or if the process ended.
    fn answer(&mut self) -> Result<Json, Json> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        let answer: Json = read.ok().and_then(|_| serde_json::from_str(&line).ok()).unwrap_or_default();
        match (&answer, answer.get("error")) {
            (Json::Object(_), None) => Ok(answer),
            (Json::Object(_), Some(_)) => Err(answer),
            _ => Err(json!({ "error": self.end() })),
        }
    }

    /// Describes how the process ended.
    fn end(&mut self) -> String {
        self.commands = None;
        let status = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        let errors = std::fs::read_to_string(self.folder.path().join("errors")).unwrap_or_default();
        let last = errors.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it did not report a reason");
        format!("the process ended ({status}): {last}")
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.commands = None;
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the error text of an answer.
fn said(answer: &Json) -> String {
    answer["error"].as_str().unwrap_or("it did not give a reason").to_string()
}

fn tensors(args: &[Value]) -> Result<Vec<&Tensor>, NotWritten> {
    let none = || NotWritten { node: None, why: no_counterpart("a parameter that is not a tensor") };
    args.iter().map(|arg| arg.as_tensor().ok_or_else(none)).collect()
}

/// Writes the data of arguments to a file. Returns the offsets.
fn write_data(folder: &TempDir, tensors: &[&Tensor]) -> Result<Vec<u64>, SessionError> {
    let begins = tensors.iter().scan(0, |next, tensor| {
        let begin = *next;
        *next = (begin + tensor.nbytes() as u64).next_multiple_of(PAGE);
        Some(begin)
    });
    let offsets: Vec<u64> = begins.collect();
    let mut file = BufWriter::new(File::create(folder.path().join("data"))?);
    for (tensor, offset) in tensors.iter().zip(&offsets) {
        file.seek(SeekFrom::Start(*offset))?;
        file.write_all(tensor.bytes())?;
    }
    file.into_inner().map_err(io::IntoInnerError::into_error)?;
    Ok(offsets)
}

/// Describes an input to the process. An input without a name is identified by its position.
fn described(tensor: &Tensor, offset: u64, name: Option<&str>) -> Json {
    let (dtype, shape) = (tensor.dtype().to_string(), tensor.shape());
    json!({ "name": name, "dtype": dtype, "shape": shape, "count": tensor.len(), "offset": offset })
}
