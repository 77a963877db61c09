use super::words;

words!(
    /// The kind of a resource: its field `type`.
    Kind, "type of resource" {
        /// A directory.
        Directory = "directory",
        /// A path that the operator provides.
        Access = "access",
        /// A file, or the mesh's keys in a file that the machine owns.
        File = "file",
        /// A unit that exists on the machine.
        Service = "service",
        /// A package of the machine's package manager.
        Package = "package",
        /// A network of the container runtime.
        Network = "network",
        /// A user.
        User = "user",
        /// A command that runs as a unit of the host's own.
        Process = "process",
        /// The content of an archive, in a directory of its own.
        Archive = "archive",
        /// A container: running, run once, or scheduled.
        Container = "container",
        /// A command that makes something true which another command verifies.
        Action = "action",
        /// A port that the machine's firewall lets in.
        Opening = "opening",
    }
);
