//! The keys of `passes.toml`. The parser refuses all others, and `docs/manifest.md` is generated from these tables.

/// A key of a table.
#[cfg_attr(not(test), expect(dead_code, reason = "only the name is used outside of the documentation"))]
pub(super) struct Key {
    pub(super) name: &'static str,
    /// Type of its value.
    pub(super) ty: &'static str,
    /// Default value.
    pub(super) default: &'static str,
    /// Documentation.
    pub(super) doc: &'static str,
    /// An excerpt of a manifest.
    pub(super) example: &'static str,
}

/// Keys of the manifest itself, except those in [`SETTINGS`].
const OWN: &[Key] = &[
    Key {
        name: "plugin",
        ty: "list of tables",
        default: "no plugin",
        doc: "The plugins, one `[[plugin]]` each. Their order determines the order of `all(…)` and of lists; required passes may be in any plugin.",
        example: "[[plugin]]\ncrate = \"plugins/relax-ops\"\n\n[[plugin]]\npath = \"lib/libacme.so\"\n",
    },
    Key {
        name: "search",
        ty: "list of strings",
        default: "`[]`",
        doc: "Folders in which passhost looks for plugins with a `name`, relative to the folder of the manifest. `{triple}` is replaced by the \
              target triple of this passhost, such as `x86_64-unknown-linux-gnu`.",
        example: "search = [\"lib\", \"/opt/acme/lib\"]\n",
    },
    Key {
        name: "pipelines",
        ty: "table",
        default: "no pipeline",
        doc: "Pipelines by name. Each pipeline is a string of passes, as for `--passes`, or a table (see below).",
        example: "[pipelines]\ndefault = \"relax.Normalize,acme.GroupConvolutions{through=[relax.nn.relu]}\"\n",
    },
    Key {
        name: "default_pipeline",
        ty: "string",
        default: "`\"default\"`, if there is a pipeline of that name",
        doc: "The pipeline to run without `--passes` and `--pipeline`.",
        example: "default_pipeline = \"small\"\n\n[pipelines]\nsmall = \"relax.Normalize\"\n",
    },
];

/// Keys of the manifest that apply to all pipelines, and keys of a single pipeline.
const SETTINGS: &[Key] = &[
    Key {
        name: "opt_level",
        ty: "integer",
        default: "`2`",
        doc: "Passes with a higher opt_level are skipped unless another pass requires them. Like `--opt-level`.",
        example: "opt_level = 3\n",
    },
    Key {
        name: "disabled",
        ty: "list of strings",
        default: "`[]`",
        doc: "Passes that must not run. Like `--disable`.",
        example: "disabled = [\"relax.EliminateCommonSubexpr\"]\n",
    },
    Key {
        name: "required",
        ty: "list of strings",
        default: "`[]`",
        doc: "Passes that run at any opt_level if a pipeline contains them. Like `--require`.",
        example: "required = [\"relax.Normalize\"]\n",
    },
    Key {
        name: "instruments",
        ty: "list of strings",
        default: "`[]`",
        doc: "Plugin instruments, with options in braces. Order: manifest, pipeline, `--instrument`.",
        example: "instruments = [\"acme.Counter{every=2}\"]\n",
    },
    Key {
        name: "target",
        ty: "string",
        default: "no target",
        doc: "The compilation target that passes see: a name, or JSON. Like `--target`.",
        example: "target = \"llvm\"\n",
    },
    Key {
        name: "config",
        ty: "table",
        default: "the defaults of the options",
        doc: "Values of config options that plugins declare. Nested tables form dotted names: `[config.acme]` with `limit = 16` sets \
              `acme.limit`. `passhost config` lists all options. Like `--config`.",
        example: "[config]\nrelax.FuseOps.max_depth = 64\n",
    },
    Key {
        name: "expect",
        ty: "table",
        default: "nothing",
        doc: "Expected values of counters. A key is the full name of a pass or instrument, a dot, and the name of the counter; a value is an \
              integer, or a comparison with an integer (`>=`, `<=`, `==`, `!=`, `>`, `<`). The run fails with exit code 1 if a counter differs. \
              Expectations about passes and instruments outside the plan are not checked. Like `--expect`.",
        example: "[expect]\n\"acme.GroupConvolutions.groups formed\" = \">= 8\"\n",
    },
];

/// Keys of `[[plugin]]`.
const PLUGIN_KEYS: &[Key] = &[
    Key {
        name: "path",
        ty: "string",
        default: "exactly one of `path`, `name` and `crate` must be given",
        doc: "A library, relative to the folder of the manifest.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\n",
    },
    Key {
        name: "name",
        ty: "string",
        default: "exactly one of `path`, `name` and `crate` must be given",
        doc: "A library in a folder of `search`, without the prefix and the extension of the platform: `acme` is \
              `libacme.so`, `libacme.dylib` or `acme.dll`.",
        example: "search = [\"lib\"]\n\n[[plugin]]\nname = \"acme\"\n",
    },
    Key {
        name: "crate",
        ty: "string",
        default: "exactly one of `path`, `name` and `crate` must be given",
        doc: "The folder of a Rust crate, relative to the folder of the manifest. passhost builds it if its library is \
              missing or stale.",
        example: "[[plugin]]\ncrate = \"../my-passes\"\n",
    },
    Key {
        name: "version",
        ty: "string",
        default: "any version",
        doc: "A requirement on the version of the plugin, in the syntax of cargo.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nversion = \">= 0.2, < 0.4\"\n",
    },
    Key {
        name: "api",
        ty: "string",
        default: "any version that this passhost loads",
        doc: "A requirement on the plugin API version with which the plugin was built.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\napi = \"1.0\"\n",
    },
    Key {
        name: "isolate",
        ty: "boolean",
        default: "`false`",
        doc: "True to run the plugin in its own process: a crash or an endless loop then fails only its step. `--isolate` does this for all \
              plugins. See [Isolation](isolation.md) for the guarantees.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\n",
    },
    Key {
        name: "timeout",
        ty: "string",
        default: "`\"5 min\"`",
        doc: "Time limit for one call of the plugin in its own process: `ms`, `s`, `min`; without a unit, seconds. The lower of this and \
              `--plugin-timeout` applies.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\ntimeout = \"30 s\"\n",
    },
    Key {
        name: "memory",
        ty: "string",
        default: "half of the memory of the machine",
        doc: "Memory limit for the plugin's own data in its process: `KiB`, `MiB`, `GiB`; without a unit, bytes; 16 MiB or more. The lower of \
              this and `--plugin-memory` applies.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\nmemory = \"2 GiB\"\n",
    },
    Key {
        name: "cpu",
        ty: "string",
        default: "no limit",
        doc: "Limit on the total processor time of each process of the plugin, in whole seconds. The lower of this and `--plugin-cpu` applies.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\ncpu = \"60 s\"\n",
    },
    Key {
        name: "read",
        ty: "list of strings",
        default: "`[]`",
        doc: "Files and folders that the process of the plugin may read, relative to the folder of the manifest. See [Isolation](isolation.md) \
              for the files that are always readable.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\nread = [\"tables\"]\n",
    },
    Key {
        name: "write",
        ty: "list of strings",
        default: "`[]`",
        doc: "Files and folders that the process of the plugin may read and write. Modes, owners and times cannot be changed.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\nwrite = [\"cache\"]\n",
    },
    Key {
        name: "network",
        ty: "boolean",
        default: "`false`",
        doc: "True if the process of the plugin may use the network.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\nnetwork = true\n",
    },
    Key {
        name: "env",
        ty: "list of strings",
        default: "`[]`",
        doc: "Environment variables for the process of the plugin, besides the default variables: a name, or a prefix followed by `*`. See \
              [Isolation](isolation.md) for the default variables.",
        example: "[[plugin]]\npath = \"lib/libacme.so\"\nisolate = true\nenv = [\"ACME_*\"]\n",
    },
];

/// Keys of a pipeline that is a table, except those in [`SETTINGS`].
const PASSES: &[Key] = &[Key {
    name: "passes",
    ty: "string",
    default: "must be given",
    doc: "The passes, as for `--passes`.",
    example: "[pipelines.late]\npasses = \"relax.Normalize,Sequential(name=end)[relax.DeadCodeElimination]\"\nopt_level = 3\n",
}];

pub(super) const MANIFEST: &[&[Key]] = &[OWN, SETTINGS];
pub(super) const PLUGIN: &[&[Key]] = &[PLUGIN_KEYS];
pub(super) const PIPELINE: &[&[Key]] = &[PASSES, SETTINGS];

/// Returns the names in tables of keys.
pub(super) fn names(tables: &[&[Key]]) -> Vec<&'static str> {
    tables.iter().flat_map(|keys| keys.iter()).map(|key| key.name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plugins::manifest::Manifest;
    use std::fmt::Write;
    use std::path::Path;

    fn section(out: &mut String, title: &str, intro: &str, keys: &[Key]) {
        let _ = writeln!(out, "\n## {title}\n\n{intro}\n\n| key | type | default | meaning |\n|---|---|---|---|");
        for Key { name, ty, default, doc, .. } in keys {
            let _ = writeln!(out, "| `{name}` | {ty} | {default} | {doc} |");
        }
        for Key { name, example, .. } in keys {
            let _ = writeln!(out, "\n`{name}`:\n\n```toml\n{example}```");
        }
    }

    fn document() -> String {
        let mut out = "\
# The manifest

`passes.toml` lists the plugins and the default settings of runs. passhost looks for it in the current folder, in
the folders above it, and next to the program itself;
`--manifest FILE` selects a different file. It is a [TOML](https://toml.io) file. Unknown keys and values of a wrong type are
errors; `passhost check` shows all of them at once.

This page is generated from the keys of the parser: `BLESS=1 cargo test -p passhost --lib manifest` rewrites it.
"
        .to_string();
        section(&mut out, "Keys of the manifest", "At the top of the file:", OWN);
        let settings = "At the top of the file, these settings apply to all pipelines; in the table of a pipeline, they apply to \
                        that pipeline. The command line overrides the pipeline, and the pipeline overrides the \
                        manifest, even if they disagree about a pass that is disabled or required.";
        section(&mut out, "Settings", settings, SETTINGS);
        section(&mut out, "Keys of a plugin", "In each `[[plugin]]`:", PLUGIN_KEYS);
        let pipeline = "A pipeline that is a table, `[pipelines.NAME]`, has this key and all [settings](#settings):";
        section(&mut out, "Keys of a pipeline", pipeline, PASSES);
        out
    }

    #[test]
    fn the_document_has_every_key() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/manifest.md");
        if std::env::var_os("BLESS").is_some() {
            std::fs::write(&path, document()).expect("docs/manifest.md can be written");
            return;
        }
        let found = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(found == document(), "docs/manifest.md does not match the keys; BLESS=1 cargo test rewrites it");
    }

    #[test]
    fn each_example_is_read_and_has_its_key() {
        for key in [OWN, SETTINGS, PLUGIN_KEYS, PASSES].into_iter().flatten() {
            let (_, problems) = Manifest::parse_all(Path::new("passes.toml"), key.example);
            assert_eq!(problems, [], "{}", key.example);
            assert!(key.example.contains(key.name), "the example of `{}` does not have it", key.name);
        }
    }
}
