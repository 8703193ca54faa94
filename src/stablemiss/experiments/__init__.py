"""The paper's tables and figures, and the demo, as data; how they are run and compared."""
