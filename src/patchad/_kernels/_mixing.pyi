BEST: int

def forward(
    instructions: int,
    sizes: tuple[int, int, int],
    strides: tuple[int, int],
    last: bool,
    weights: tuple[int, ...],
    hidden: int,
    gelu: bool,
    x: int,
    out: int,
    /,
) -> None: ...
def backward(
    instructions: int,
    sizes: tuple[int, int, int],
    strides: tuple[int, int],
    last: bool,
    weights: tuple[int, ...],
    hidden: int,
    gelu: bool,
    x: int,
    grad_out: int,
    grad_x: int,
    transposed: tuple[int, ...],
    gradients: tuple[int, ...],
    /,
) -> None: ...
def distances(
    instructions: int,
    sizes: tuple[int, int, int, int, int],
    strides: tuple[int, int],
    softmax: bool,
    inter: int,
    intra: int,
    out: int,
    /,
) -> None: ...
