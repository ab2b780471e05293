declare ptr @aligned_alloc(i64, i64)
declare void @free(ptr)
declare extern_weak void @TVMFFIErrorSetRaisedFromCStr(ptr, ptr)

; Returns new memory for a storage, or its existing memory; null ends the run. Requests are multiples of 64 bytes.
define internal ptr @passhost.allocate(ptr %context, i64 %storage, i64 %bytes, i32 %how) nounwind {
entry:
  %own.at = getelementptr i64, ptr %context, i64 {own}
  %own = load ptr, ptr %own.at, align 8
  %first = shl i64 %storage, 1
  %memory.at = getelementptr i64, ptr %own, i64 %first
  %size.at = getelementptr i64, ptr %memory.at, i64 1
  %memory = load ptr, ptr %memory.at, align 8
  %size = load i64, ptr %size.at, align 8
  %more = add i64 %bytes, 63
  %lines = and i64 %more, -64
  %any = icmp ne i64 %lines, 0
  %wanted = select i1 %any, i64 %lines, i64 64
  %fits = icmp eq i64 %size, %wanted
  br i1 %fits, label %there, label %renew
renew:
  call void @free(ptr %memory)
  %new = call ptr @aligned_alloc(i64 64, i64 %wanted)
  %none = icmp eq ptr %new, null
  %new.size = select i1 %none, i64 0, i64 %wanted
  store ptr %new, ptr %memory.at, align 8
  store i64 %new.size, ptr %size.at, align 8
  br i1 %none, label %fail, label %there
fail:
  %site.at = getelementptr i64, ptr %context, i64 {site}
  store i64 {of_callback}, ptr %site.at, align 8
  ret ptr null
there:
  %all = phi ptr [ %memory, %entry ], [ %new, %renew ]
  %filled = and i32 %how, {filled}
  %fills = icmp ne i32 %filled, 0
  br i1 %fills, label %fill, label %done
fill:
  call void @llvm.memset.p0.i64(ptr %all, i8 0, i64 %wanted, i1 false)
  br label %done
done:
  ret ptr %all
}

; Frees the memory of the given number of storages.
define internal void @passhost.release(ptr %own, i64 %count) nounwind {
entry:
  br label %head
head:
  %at = phi i64 [ 0, %entry ], [ %next, %body ]
  %more = icmp slt i64 %at, %count
  br i1 %more, label %body, label %done
body:
  %first = shl i64 %at, 1
  %memory.at = getelementptr i64, ptr %own, i64 %first
  %memory = load ptr, ptr %memory.at, align 8
  call void @free(ptr %memory)
  %next = add i64 %at, 1
  br label %head
done:
  ret void
}

; Runs all iterations of a loop on this thread.
define internal i32 @passhost.parallel(ptr %context, ptr %part, ptr %frame, i64 %extent) nounwind {
entry:
  %any = icmp sgt i64 %extent, 0
  br i1 %any, label %run, label %done
run:
  %code = call i32 %part(ptr %context, ptr %frame, i64 0, i64 %extent)
  ret i32 %code
done:
  ret i32 0
}

; Raises an error in TVM-FFI, if the process contains it.
define internal i32 @passhost.raise(ptr %kind, ptr %message) nounwind {
entry:
  %there = icmp ne ptr @TVMFFIErrorSetRaisedFromCStr, null
  br i1 %there, label %raise, label %done
raise:
  call void @TVMFFIErrorSetRaisedFromCStr(ptr %kind, ptr %message)
  br label %done
done:
  ret i32 -1
}

@passhost.TypeError = private constant [10 x i8] c"TypeError\00"
@passhost.ValueError = private constant [11 x i8] c"ValueError\00"
@passhost.RuntimeError = private constant [13 x i8] c"RuntimeError\00"

