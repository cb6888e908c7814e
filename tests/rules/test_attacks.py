"""Attacks on the lowering, found by trying to get a wrong program past it: none may be mapped."""

from __future__ import annotations

from .build import Case, check, row, table
from .conftest import Outcomes

HELD = (
    Case(
        "cumsum dtype int",
        "x: f32[4]\ny: i64[4] = cumsum(x,0,dtype='int64')\nreturn y",
        "x: f32[4]\ny: f32[4] = cumsum(x,0)\nreturn y",
        maps=(),
    ),
    Case(
        "sum int dtype bool",
        "x: i64[4]\ny: b[()] = sum.dim_IntList(x,[0],dtype='bool')\nreturn y",
        "x: i64[4]\ny: i64[()] = sum.dim_IntList(x,[0])\nreturn y",
        maps=(),
    ),
    Case(
        "complex to float",
        "x: c64[4]\ny: c64[4] = clone(x)\nreturn y",
        "x: c64[4]\na: f32[4] = _to_copy(x,dtype='float32')\ny: c64[4] = _to_copy(a,dtype='complex64')\nreturn y",
        maps=(),
    ),
    Case(
        "full 2.5 int64",
        "x: f32[4]\na: f32[4] = full([4],2.5)\ny: f32[4] = mul.Tensor(a,x)\nreturn y",
        "x: f32[4]\na: i64[4] = full([4],2.5,dtype='int64')\ny: f32[4] = mul.Tensor(a,x)\nreturn y",
        maps=(),
    ),
    Case(
        "full_like int",
        "x: i64[4]\ny: f32[4] = full([4],2.5)\nreturn y",
        "x: i64[4]\ny: i64[4] = full_like(x,2.5)\nreturn y",
        maps=(),
    ),
    Case(
        "slice_scatter dtype",
        "x: i64[6]\nz: f32[4]\ny: i64[6] = slice_scatter(x,z,0,0,4)\nreturn y",
        "x: i64[6]\nz: f32[4]\na: i64[2] = slice.Tensor(x,0,4,6)\ny: f32[6] = cat([z,a],0)\nreturn y",
        maps=(),
    ),
    Case(
        "out overload aliasing",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = relu(x)\nreturn y",
        "x: f32[4]\nz: f32[4]\nu: f32[4] = add.out(x,z,out=x)\ny: f32[4] = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "_foreach_add_",
        "x: f32[4]\ny: f32[4] = relu(x)\nreturn y",
        "x: f32[4]\nu = _foreach_add_.Scalar([x],1.0)\ny: f32[4] = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "__iand__",
        "x: i64[4]\nz: i64[4]\ny: i64[4] = abs(x)\nreturn y",
        "x: i64[4]\nz: i64[4]\nu: i64[4] = __iand__.Tensor(x,z)\ny: i64[4] = abs(x)\nreturn y",
        maps=(),
    ),
    Case(
        "add_ self kw",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = relu(x)\nreturn y",
        "x: f32[4]\nz: f32[4]\nu: f32[4] = add_.Tensor(other=z,self=x)\ny: f32[4] = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "relu_ self kw",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = clone(x)\nreturn y",
        "x: f32[4]\nz: f32[4]\nu: f32[4] = relu_(self=x)\ny: f32[4] = clone(x)\nreturn y",
        maps=(),
    ),
    Case(
        "slice then in place",
        "x: f32[4]\nz: f32[2]\ny: f32[4] = relu(x)\nreturn y",
        "x: f32[4]\nz: f32[2]\ns: f32[2] = slice.Tensor(x,0,0,2)\nu: f32[2] = add_.Tensor(s,z)\ny: f32[4] = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "split then in place on x",
        "x: f32[4]\nz: f32[4]\np = split.Tensor(x,2)\ns: f32[2] = p[0]\ny: f32[2] = relu(s)\nreturn y",
        "x: f32[4]\nz: f32[4]\np = split.Tensor(x,2)\ns: f32[2] = p[0]\nu: f32[4] = add_.Tensor(x,z)\ny: f32[2] = relu(s)\nreturn y",
        maps=(),
    ),
    Case(
        "slice copy_ cache",
        "x: f32[4]\nz: f32[2]\ny: f32[4] = relu(x)\nreturn y",
        "x: f32[4]\nz: f32[2]\ns: f32[2] = slice.Tensor(x,0,0,2)\nu: f32[2] = copy_(s,z)\ny: f32[4] = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "select fill_",
        "x: f32[4,3]\ny: f32[4,3] = relu(x)\nreturn y",
        "x: f32[4,3]\ns: f32[3] = select.int(x,0,1)\nu: f32[3] = zero_(s)\ny: f32[4,3] = relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "coalesced in place",
        "x: f32[4]\ny: f32[4] = relu(x)\nreturn y",
        'x: f32[4]\nu = all_reduce_coalesced_([x],"sum","g")\ny: f32[4] = relu(x)\nreturn y',
        maps=(),
    ),
    Case(
        "kw add",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = add.Tensor(x,x)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = add.Tensor(self=x,other=z)\nreturn y",
        maps=(),
    ),
    Case(
        "kw mul",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = mul.Tensor(x,x)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = mul.Tensor(self=x,other=z)\nreturn y",
        maps=(),
    ),
    Case(
        "kw mm",
        "x: f32[4,4]\nw: f32[4,4]\ny: f32[4,4] = mm(x,x)\nreturn y",
        "x: f32[4,4]\nw: f32[4,4]\ny: f32[4,4] = mm(self=x,mat2=w)\nreturn y",
        maps=(),
    ),
    Case(
        "kw where",
        "m: b[4]\nx: f32[4]\nz: f32[4]\ny: f32[4] = where.self(m,x,x)\nreturn y",
        "m: b[4]\nx: f32[4]\nz: f32[4]\ny: f32[4] = where.self(condition=m,self=x,other=z)\nreturn y",
        maps=(),
    ),
    Case(
        "kw sub",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = sub.Tensor(x,x)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = sub.Tensor(self=x,other=z)\nreturn y",
        maps=(),
    ),
    Case(
        "mul x self pos other kw",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = mul.Tensor(x,x)\nreturn y",
        "x: f32[4]\nz: f32[4]\ny: f32[4] = mul.Tensor(x,other=z)\nreturn y",
        maps=(),
    ),
    Case(
        "arange end kw",
        "x: f32[4]\ny: i64[4] = arange(4)\nreturn y",
        "x: f32[4]\ny: i64[4] = arange.start(4,end=8)\nreturn y",
        maps=(),
    ),
    Case(
        "arange float as int",
        "x: f32[4]\ny: f32[4] = arange.start(0.5,4.5)\nreturn y",
        "x: f32[4]\ny: i64[4] = arange.start(0.5,4.5,dtype='int64')\nreturn y",
        maps=(),
    ),
    Case(
        "opaque dtype kw prod",
        "x: f32[4]\ny: f32[()] = prod(x)\nreturn y",
        "x: f32[4]\ny: i64[()] = prod(x,dtype='int64')\nreturn y",
        maps=(),
    ),
    Case(
        "opaque dtype cumprod",
        "x: f32[4]\ny: i64[4] = cumprod(x,0,dtype='int64')\nreturn y",
        "x: f32[4]\ny: f32[4] = cumprod(x,0)\nreturn y",
        maps=(),
    ),
    Case(
        "view.dtype kw",
        "x: f32[4]\ny: i32[4] = view.dtype(x,dtype='int32')\nreturn y",
        "x: f32[4]\ny: f32[4] = view.dtype(x,dtype='float32')\nreturn y",
        maps=(),
    ),
    Case(
        "as_strided offset",
        "x: f32[8]\na: f32[4] = slice.Tensor(x,0,4,8)\ny: f32[4] = as_strided(a,[4],[1],0)\nreturn y",
        "x: f32[8]\na: f32[4] = slice.Tensor(x,0,4,8)\nb: f32[4] = clone(a)\ny: f32[4] = as_strided(b,[4],[1],0)\nreturn y",
        maps=(),
    ),
    Case(
        "as_strided of t",
        "x: f32[4,3]\na: f32[3,4] = t(x)\ny: f32[12] = as_strided(a,[12],[1])\nreturn y",
        "x: f32[4,3]\na: f32[3,4] = t(x)\nb: f32[3,4] = clone(a)\ny: f32[12] = as_strided(b,[12],[1])\nreturn y",
        maps=(),
    ),
    Case(
        "random_",
        "x: f32[4]\na: f32[4] = random(x)\nb: f32[4] = random(x)\ny: f32[4] = mul.Tensor(a,b)\nreturn y",
        "x: f32[4]\na: f32[4] = random(x)\ny: f32[4] = mul.Tensor(a,a)\nreturn y",
        maps=(),
    ),
    Case(
        "binomial",
        "x: f32[4]\nz: f32[4]\na: f32[4] = binomial(x,z)\nb: f32[4] = binomial(x,z)\ny: f32[4] = mul.Tensor(a,b)\nreturn y",
        "x: f32[4]\nz: f32[4]\na: f32[4] = binomial(x,z)\ny: f32[4] = mul.Tensor(a,a)\nreturn y",
        maps=(),
    ),
    Case(
        "sdpa dropout pos",
        "q: f32[1,2,4,8]\na: f32[1,2,4,8] = scaled_dot_product_attention(q,q,q,None,0.5)\nb: f32[1,2,4,8] = scaled_dot_product_attention(q,q,q,None,0.5)\ny: f32[1,2,4,8] = mul.Tensor(a,b)\nreturn y",
        "q: f32[1,2,4,8]\na: f32[1,2,4,8] = scaled_dot_product_attention(q,q,q,None,0.5)\ny: f32[1,2,4,8] = mul.Tensor(a,a)\nreturn y",
        maps=(),
    ),
    Case(
        "tuple ref split",
        "x: f32[4]\nz: f32[2]\na = split.Tensor(x,2)\ny: f32[2] = my.f(a,z)\nreturn y",
        "x: f32[4]\nz: f32[2]\na = split.Tensor(x,2)\nl: f32[2] = a[0]\nr: f32[2] = a[1]\nw: f32[4] = cat([r,z],0)\nb = split.Tensor(w,2)\ny: f32[2] = my.f(l,b)\nreturn y",
        maps=(),
    ),
    Case(
        "logical_not_",
        "x: i64[4]\ny: i64[4] = logical_not_(x)\nreturn y",
        "x: i64[4]\ny: i64[4] = bitwise_not(x)\nreturn y",
        maps=(),
    ),
    Case(
        "logical_and_ ints",
        "x: i64[4]\nz: i64[4]\ny: i64[4] = logical_and_(x,z)\nreturn y",
        "x: i64[4]\nz: i64[4]\ny: i64[4] = bitwise_and.Tensor(x,z)\nreturn y",
        maps=(),
    ),
    Case(
        "_to_copy self kw",
        "x: f32[4]\ny: f32[4] = clone(x)\nreturn y",
        "x: f32[4]\ny: i64[4] = _to_copy(self=x,dtype='int64')\nreturn y",
        maps=(),
    ),
    Case(
        "a2a kw splits",
        "x: f32[4]\ny: f32[4] = cumsum(x,0)\nreturn y",
        'x: f32[4]\na: f32[4] = all_to_all_single(x,output_split_sizes=([1,3] if rank==0 else [3,1]),input_split_sizes=([1,3] if rank==0 else [3,1]),group_name="g")\nb: f32[4] = all_to_all_single(a,[],[],"g")\ny: f32[4] = cumsum(b,0)\nreturn y',
        maps=(),
        relate={"x": [row(r, "x") for r in range(2)]},
    ),
    Case(
        "max of neg",
        "x: f32[4,6]\nn: f32[4,6] = neg(x)\ny: f32[4] = amax(n,[1])\nreturn y",
        'x: f32[4,3]\nm: f32[4] = amax(x,[1])\nn: f32[4] = neg(m)\ny: f32[4] = all_reduce(n,"max","g")\nreturn y',
        maps=(),
    ),
    Case(
        "max of neg2",
        "x: f32[4,6]\nn: f32[4] = amax(x,[1])\ny: f32[4] = neg(n)\nreturn y",
        'x: f32[4,3]\nm: f32[4] = amax(x,[1])\nn: f32[4] = neg(m)\ny: f32[4] = all_reduce(n,"max","g")\nreturn y',
        maps=(),
    ),
    Case(
        "avg ints",
        "x: i64[4,6]\nn: i64[4] = sum.dim_IntList(x,[1])\ny: f32[4] = div.Tensor(n,2)\nreturn y",
        'x: i64[4,3]\nm: i64[4] = sum.dim_IntList(x,[1])\ny: i64[4] = all_reduce(m,"avg","g")\nreturn y',
        maps=(),
    ),
    Case(
        "amax kw dim no shape",
        "x: f32[4,4]\ny = amax(x,dim=[0])\nreturn y",
        "x: f32[4,4]\ny = amax(x,dim=[1])\nreturn y",
        maps=(),
    ),
    Case(
        "vllm gather kw",
        "x: f32[4,4]\nreturn cumsum(x,0)",
        'x: f32[2,4]\na = vllm.all_gather(x,dim=1,world_size=2,group_name="g")\ny=cumsum(a,0)\nreturn y',
        maps=(),
    ),
    Case(
        "mul empty 0",
        "x: f32[4]\ny: f32[4]=clone(x)\nreturn y",
        "x: f32[4]\ne: f32[4]=empty([4])\nm: f32[4]=mul.Tensor(e,0.0)\ny: f32[4]=add.Tensor(x,m)\nreturn y",
        maps=(),
    ),
    Case(
        "direct kernel mutates",
        "x: f32[2,4]\nr: f32[2,4]\nw: f32[4]\ny: f32[2,4]=relu(x)\nreturn y",
        "x: f32[2,4]\nr: f32[2,4]\nw: f32[4]\nu = _C.fused_add_rms_norm(x,r,w,1e-5)\ny: f32[2,4]=relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "functional kernel attr",
        "x: f32[2,4]\nw: f32[4]\ny: f32[2,4]=kernel('_C.rms_norm',result=x,input=x,weight=w,epsilon=1e-5)[1]\nreturn y",
        "x: f32[2,4]\nw: f32[4]\ny: f32[2,4]=kernel('_C.rms_norm',result=x,input=x,weight=w,epsilon=1e-6)[1]\nreturn y",
        maps=(),
    ),
    Case(
        "int8 add overflow cast",
        "x: i64[4]\ny: i64[4] = clone(x)\nreturn y",
        "x: i64[4]\na: i32[4]=_to_copy(x,dtype='int32')\ny: i64[4] = _to_copy(a,dtype='int64')\nreturn y",
        maps=(),
    ),
    Case(
        "split, in place on x",
        "x: f32[4]\nz: f32[4]\np = split.Tensor(x,2)\ns: f32[2] = p[0]\nreturn relu(s)",
        "x: f32[4]\nz: f32[4]\np = split.Tensor(x,2)\nu: f32[4] = add_.Tensor(x,z)\ns: f32[2] = p[0]\nreturn relu(s)",
        maps=(),
    ),
    Case(
        "slice of relu, in place on base",
        "a: f32[4]\nx: f32[4]=relu(a)\ns: f32[2]=slice.Tensor(x,0,0,2)\ny: f32[2]=exp(s)\nreturn y",
        "a: f32[4]\nx: f32[4]=relu(a)\ns: f32[2]=slice.Tensor(x,0,0,2)\nu: f32[4]=neg_(x)\ny: f32[2]=exp(s)\nreturn y",
        maps=(),
    ),
    Case(
        "split of relu, in place on piece",
        "a: f32[4]\nx: f32[4]=relu(a)\np=split.Tensor(x,2)\ns: f32[2]=p[0]\ny: f32[4]=exp(x)\nreturn y",
        "a: f32[4]\nx: f32[4]=relu(a)\np=split.Tensor(x,2)\ns: f32[2]=p[0]\nu: f32[2]=neg_(s)\ny: f32[4]=exp(x)\nreturn y",
        maps=(),
    ),
    Case(
        "logical_not_ of computed int",
        "a: i64[4]\nx: i64[4]=abs(a)\ny: i64[4]=logical_not_(x)\nreturn y",
        "a: i64[4]\nx: i64[4]=abs(a)\ny: i64[4]=bitwise_not(x)\nreturn y",
        maps=(),
    ),
    Case(
        "in place legit",
        "x: f32[4]\ny: f32[4]=relu_(x)\nreturn y",
        "x: f32[4]\ny: f32[4]=relu_(x)\nreturn y",
        maps=None,
    ),
    Case(
        "in place input both, other",
        "x: f32[4]\nz: f32[4]\ny: f32[4]=relu(x)\nu: f32[4]=neg_(x)\nreturn y",
        "x: f32[4]\nz: f32[4]\nu: f32[4]=neg_(x)\ny: f32[4]=relu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "in place: seq x, dist neg_",
        "x: f32[4]\ny: f32[4]=relu(x)\nreturn y",
        "x: f32[4]\nu: f32[4]=neg_(x)\ny: f32[4]=relu(u)\nreturn y",
        maps=(),
    ),
    Case(
        "fresh result assigned into slice's cat",
        "x: c64[4]\ny: c64[4]=exp(x)\nreturn y",
        "x: c64[4]\na: f32[4]=_to_copy(x,dtype='float32')\ny: f32[4]=exp(a)\nreturn y",
        maps=(),
    ),
    Case(
        "c2f then sum",
        "x: c64[4]\ny: c64[()]=sum.dim_IntList(x,[0])\nreturn y",
        "x: c64[4]\ny: f32[()]=sum.dim_IntList(x,[0],dtype='float32')\nreturn y",
        maps=(),
    ),
    Case(
        "layer_norm eps",
        "x: f32[4,8]\nw: f32[8]\nb: f32[8]\ny: f32[4,8]=native_layer_norm(x,[8],w,b,1e-5)[0]\nreturn y",
        "x: f32[4,8]\nw: f32[8]\nb: f32[8]\ny: f32[4,8]=native_layer_norm(x,[8],w,b,1e-6)[0]\nreturn y",
        maps=(),
    ),
    Case(
        "softmax dim",
        "x: f32[4,4]\ny: f32[4,4]=_softmax(x,0,False)\nreturn y",
        "x: f32[4,4]\ny: f32[4,4]=_softmax(x,1,False)\nreturn y",
        maps=(),
    ),
    Case(
        "gelu approx",
        "x: f32[4]\nreturn gelu(x)",
        "x: f32[4]\nreturn gelu(x,approximate='tanh')",
        maps=(),
    ),
    Case(
        "var correction",
        "x: f32[4,4]\ny: f32[4]=var.correction(x,[1],correction=0)\nreturn y",
        "x: f32[4,4]\ny: f32[4]=var.correction(x,[1],correction=1)\nreturn y",
        maps=(),
    ),
    Case(
        "sdpa causal",
        "q: f32[1,2,4,8]\ny: f32[1,2,4,8]=scaled_dot_product_attention(q,q,q)\nreturn y",
        "q: f32[1,2,4,8]\ny: f32[1,2,4,8]=scaled_dot_product_attention(q,q,q,is_causal=True)\nreturn y",
        maps=(),
    ),
    Case(
        "sdpa scale",
        "q: f32[1,2,4,8]\ny: f32[1,2,4,8]=scaled_dot_product_attention(q,q,q,scale=0.5)\nreturn y",
        "q: f32[1,2,4,8]\ny: f32[1,2,4,8]=scaled_dot_product_attention(q,q,q,scale=0.25)\nreturn y",
        maps=(),
    ),
    Case(
        "pow swap",
        "x: f32[4]\nreturn pow.Scalar(2,x)",
        "x: f32[4]\nreturn pow.Tensor_Scalar(x,2)",
        maps=(),
    ),
    Case(
        "div mode",
        "x: f32[4]\nz: f32[4]\nreturn div.Tensor_mode(x,z,rounding_mode='floor')",
        "x: f32[4]\nz: f32[4]\nreturn div.Tensor_mode(x,z,rounding_mode='trunc')",
        maps=(),
    ),
    Case(
        "triu diag",
        "x: f32[4,4]\ny: f32[4,4]=triu(x,1)\nreturn y",
        "x: f32[4,4]\ny: f32[4,4]=triu(x)\nreturn y",
        maps=(),
    ),
    Case(
        "alpha",
        "x: f32[4]\nz: f32[4]\nreturn add.Tensor(x,z,alpha=2)",
        "x: f32[4]\nz: f32[4]\nreturn add.Tensor(x,z)",
        maps=(),
    ),
    Case(
        "addmm beta",
        "c: f32[4]\nx: f32[4,4]\nw: f32[4,4]\nreturn addmm(c,x,w,beta=2)",
        "c: f32[4]\nx: f32[4,4]\nw: f32[4,4]\nreturn addmm(c,x,w)",
        maps=(),
    ),
    Case(
        "view for transpose",
        "x: f32[4,6]\ny: f32[6,4]=t(x)\nreturn exp(y)",
        "x: f32[4,6]\ny: f32[6,4]=view(x,[6,4])\nreturn exp(y)",
        maps=(),
    ),
    Case(
        "argmax of scaled",
        "x: f32[4,4]\ny: i64[4]=argmax(x,1)\nreturn y",
        "x: f32[4,4]\ny: i64[4]=argmax(neg(x),1)\nreturn y",
        maps=(),
    ),
    Case(
        "gather dim",
        "x: f32[4,4]\ni: i64[4,4]\nreturn gather(x,0,i)",
        "x: f32[4,4]\ni: i64[4,4]\nreturn gather(x,1,i)",
        maps=(),
    ),
    Case(
        "group order",
        "x: f32[4]\nreturn relu(x)",
        "x: f32[2]\nreturn relu(all_gather_into_tensor(x,2,'g'))",
        maps=(),
        groups={"g": [[1, 0]]},
    ),
    Case(
        "masked lookup off by one bound",
        "t: f32[8,3]\ni: i64[5]\nreturn embedding(t,i)",
        "t: f32[4,3]\ni: i64[5]\nl=lt.Scalar(i,4*rank)\nh=gt.Scalar(i,4*rank+4)\nm=logical_or(l,h)\nk: i64[5]=sub.Tensor(i,4*rank)\nf: i64[5]=masked_fill.Scalar(k,m,0)\ne=embedding(t,f)\nu=unsqueeze(m,1)\nz=masked_fill.Scalar(e,u,0.0)\nreturn all_reduce(z,'sum','g')",
        maps=(),
    ),
    Case(
        "max of mixed-sign scales",
        "x: f32[4,6]\nreturn mul.Tensor(amax(x,[1]),-2.0)",
        "x: f32[4,3]\nreturn all_reduce(mul.Tensor(amax(x,[1]),-2.0),'max','g')",
        maps=(),
    ),
)


@table(*HELD)
def test_attacks(case: Case, outcomes: Outcomes) -> None:
    """What was once mapped and is wrong, and what held."""
    check(case, outcomes(case))


EMPTY = (
    Case(
        "a gather of no elements beside the rest",
        "x: f32[4, 3]\ny = relu(x)\nreturn y",
        'x: f32[4, 3]\nn = slice.Tensor(x, 1, 3, 3)\ng = all_gather_into_tensor(n, 2, "g")\ny = relu(x)\nreturn y',
    ),
    Case(
        "a gather of no elements is returned",
        "x: f32[4, 3]\ny = relu(slice.Tensor(x, 1, 3, 3))\nreturn y",
        'x: f32[4, 3]\nn = slice.Tensor(x, 1, 3, 3)\ny = relu(all_gather_into_tensor(n, 2, "g"))\nreturn y',
        maps=(),
    ),
)


@table(*EMPTY)
def test_no_elements(case: Case, outcomes: Outcomes) -> None:
    """Tensors of no elements stop nothing."""
    check(case, outcomes(case))
